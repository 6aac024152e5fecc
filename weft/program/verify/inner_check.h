// Checks of verify() on calls inside blocks and the loss (tensor and context parallelism, samples normalised together): ranks
// that take part issue the same calls in the same order, and instructions declare their bytes.
//
// Such a call is part of an instruction: the forward around it blocks until all ranks of the call have joined. So these ranks
// must join all their collectives, inside blocks or not, in the same order.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect: order_mismatch, bad_bytes. Every list must have passed list_check.h.
void check_inner(const Program& program);

}  // namespace weft
