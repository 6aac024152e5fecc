// Counted operations of a program's step.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Operations of all ranks in a step, without recompute. Ranks at one place of the pipeline do the same.
double model_flops(const Program& program, int pp);

}  // namespace weft
