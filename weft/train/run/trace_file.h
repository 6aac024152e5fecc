// A trace of a step (program/draw/trace.h) as a file, and which step that is. Steps are counted from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/program/program.h"
#include "weft/program/timed.h"

namespace weft {

/// Throws InputError unless a run of so many steps has that one.
void check_traced_step(std::optional<int64_t> step, int64_t steps);
/// The step that a run of so many traces to the file `path`: the one asked for, or the third, or the last of fewer; 0: none,
/// as there is no path. Throws as check_traced_step() does.
int64_t traced_step(const std::string& path, std::optional<int64_t> asked, int64_t steps);

/// Writes it to the file `path`, which is whole or not there. Throws InputError where it cannot be written.
void write_trace_file(const std::string& path, const Program& program, const std::vector<TimedInstruction>& timed);

}  // namespace weft
