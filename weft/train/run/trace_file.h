// A trace of a step (program/draw/trace.h) as a file.
#pragma once

#include <string>
#include <vector>

#include "weft/program/program.h"
#include "weft/program/timed.h"

namespace weft {

/// Writes it to the file `path`, which is whole or not there. Throws InputError where it cannot be written.
void write_trace_file(const std::string& path, const Program& program, const std::vector<TimedInstruction>& timed);

}  // namespace weft
