// check_bytes: the part of verify() that follows the bytes a list declares. Of each micro-batch's activations, and of the
// partial sums of slots, no instruction frees more than is live by then, and nothing is live when the step ends. So the peaks
// that step_cost() (cost.h) reads off the same numbers are those of a step that gives back all it takes.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect of the list that `rank` runs. Costs one walk over it.
void check_bytes(const Program& program, int rank);

}  // namespace weft
