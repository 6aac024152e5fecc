// check_bytes: the part of verify() for the bytes that a list declares. For each micro-batch's activations, and the partial
// sums of slots, no instruction frees more than is live, and nothing is live when the step ends. So the peaks of step_cost()
// (cost.h) are those of a step that frees everything it allocates.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect of the list that `rank` runs. One pass over the list.
void check_bytes(const Program& program, int rank);

}  // namespace weft
