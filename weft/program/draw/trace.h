// trace: timed instructions in the form that Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev) show.
//
// A JSON array of trace events (Trace Event Format): a process for each rank of the instructions, a thread a lane; where a rank
// stands for others that do the same, its name says how many. Instructions that run beside one
// another on a lane get threads of their own, since a thread's events must nest.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/program/timed.h"

namespace weft {

/// Takes the next part of a text.
using TraceSink = std::function<void(std::string_view)>;

/// Writes the trace, times to the nanosecond. Instructions that take no time are left out. The text goes to `out` a megabyte or
/// so at a time, as one of many ranks is long; in block names U+FFFD stands for what is no UTF-8.
void write_trace(const Program& program, const std::vector<TimedInstruction>& timed, const TraceSink& out);

/// What write_trace() writes, as one text.
std::string trace_json(const Program& program, const std::vector<TimedInstruction>& timed);

}  // namespace weft
