// The checks of verify() that concern what blocks and the loss call on other ranks while they run (tensor and context
// parallelism, samples normalised together): ranks that meet there issue the same in the same order, and instructions declare
// the bytes.
//
// Such a call has no instruction of its own: the forward that it is in blocks until all of its ranks are there. So ranks that
// meet so must come to all that they meet anybody in, inside blocks or not, in one order.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect: order_mismatch, bad_bytes. Every list must be in order by itself (list_check.h).
void check_inner(const Program& program);

}  // namespace weft
