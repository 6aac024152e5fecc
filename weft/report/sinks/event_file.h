// Event files of TensorBoard: records framed by their length and its masked CRC32C (tensorflow/core/lib/io/record_writer.h),
// each an Event message in protobuf (tensorflow/core/util/event.proto, framework/summary.proto).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/report/records/record.h"

namespace weft {

/// CRC-32C (Castagnoli; RFC 3720, B.4).
uint32_t crc32c(std::string_view bytes);

/// A message as it stands in an event file.
std::string framed(std::string_view message);

/// Events, framed. The first event of a file is event_version().
std::string event_version(double time_s);
/// Later readers drop what earlier files of the run have from this step on.
std::string event_restart(double time_s, int64_t step);
/// Scalars; `prefix` comes before each name.
std::string event_scalars(double time_s, int64_t step, std::string_view prefix, const RecordValues& values);
/// Markdown, shown under "Text".
std::string event_text(double time_s, int64_t step, const std::string& tag, const std::string& text);

std::string event_histogram(double time_s, int64_t step, const std::string& tag, const ValueHistogram& histogram);

}  // namespace weft
