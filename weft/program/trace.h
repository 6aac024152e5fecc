// trace: timed instructions in the form that Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev) show.
//
// A JSON array of trace events (Trace Event Format): a process for each rank of the instructions, a thread a lane; where a rank
// stands for others that do the same, its name says how many. Instructions that run beside one
// another on a lane get threads of their own, since a thread's events must nest.
#pragma once

#include <string>
#include <vector>

#include "weft/program/timed.h"

namespace weft {

/// Times to the nanosecond. Instructions that take no time are left out.
std::string trace_json(const Program& program, const std::vector<TimedInstruction>& timed);

}  // namespace weft
