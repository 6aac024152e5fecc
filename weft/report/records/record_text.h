// Records as lines of JSON, without the newline: docs/records.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/report/records/record.h"

namespace weft {

inline constexpr size_t kMostBytesWaiting = size_t{16} << 20;  ///< of each file, while it cannot be written

/// Version of the files' form: a reader of version n reads all files of versions up to n.
inline constexpr int kRecordVersion = 1;

/// {"step":3,"time":1764583200.5,"loss":2.3,...}. A value that is not finite is null. Losses, norms and rates read back to the
/// same bits, others have seven digits.
std::string record_text(const StepRecord& record);
/// {"evaluation":"evaluation","step":3,"time":...,"loss":2.2,...}
std::string record_text(const EvaluationRecord& record);
/// {"event":"save","step":3,"time":...,"text":"...","details":{"path":"..."}}
std::string record_text(const EventRecord& record);

/// Adds the record's line to those of metrics.jsonl or events.jsonl that wait, unless kMostBytesWaiting do; histograms have
/// none.
void add_line(const Record& record, std::string& metrics, std::string& events);

/// Whether a line of steps or evaluations is of a later step than `steps_done`: a process that resumes there does it again.
bool is_of_later_step(std::string_view line, int64_t steps_done);

}  // namespace weft
