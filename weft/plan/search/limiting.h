// limiting: what keeps a simulated step from being faster.
#pragma once

#include <string>

#include "weft/program/program.h"
#include "weft/program/simulate/simulation.h"

namespace weft {

/// Returns what takes most of a step besides the model's own operations on the busiest rank, with figures: "all-reduces of tp
/// exposed: 420 ms of 1.90 s"; if no such part is a tenth of the step, what its computing consists of: "computing: ...".
std::string limiting_text(const Program& program, const Simulation& simulation);

}  // namespace weft
