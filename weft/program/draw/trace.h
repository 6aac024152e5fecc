// trace: timed instructions in the format of Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev).
//
// A JSON array of trace events (Trace Event Format): one process per rank, one thread per lane; if a rank represents others,
// its name says how many. Overlapping instructions of a lane get separate threads, since a thread's events must nest.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/program/timed.h"

namespace weft {

/// Receives the next part of a text.
using TraceSink = std::function<void(std::string_view)>;

/// Writes the trace, times to the nanosecond, without zero-length instructions. The text goes to `out` in parts of about a
/// megabyte, since a trace of many ranks is long. In block names, U+FFFD replaces invalid UTF-8.
void write_trace(const Program& program, const std::vector<TimedInstruction>& timed, const TraceSink& out);

/// Returns the output of write_trace() as one text.
std::string trace_json(const Program& program, const std::vector<TimedInstruction>& timed);

}  // namespace weft
