// Writes a trace of a step (program/draw/trace.h) to a file, and selects the step. Steps count from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/program/draw/trace.h"
#include "weft/program/program.h"
#include "weft/program/timed.h"
#include "weft/train/run/train_options.h"

namespace weft {

/// Throws InputError unless a run of this many steps has that step.
void check_traced_step(std::optional<int64_t> step, int64_t steps);
/// The step to trace to the file `path`: the requested one, or the third, or the last if there are fewer; 0: no path, no trace.
/// Throws as check_traced_step() does.
int64_t traced_step(const std::string& path, std::optional<int64_t> asked, int64_t steps);

/// Throws InputError unless a run of this many steps has those to profile, at most 100.
void check_profiled_steps(const std::optional<StepRange>& range, int64_t steps);

/// Writes the trace to `path`, completely or not at all. Throws InputError if it cannot be written.
void write_trace_file(const std::string& path, const Program& program, const std::vector<TimedInstruction>& timed,
                      const std::vector<TraceSlice>& slices = {});

}  // namespace weft
