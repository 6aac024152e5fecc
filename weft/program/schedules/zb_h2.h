// Schedule: ZB-H2 (Qi et al. 2024, arXiv:2401.10241, section 2.3): ZB-H1 with twice the memory. Rank r starts 2 (p - 1 - r)
// forwards ahead, enough to be busy until the first gradient arrives, and delays the weight parts of 2 r micro-batches.
//
// Memory: the activations of 2 p - 1 micro-batches on every rank.
// Bubble, with equal stages and F = I = W: 0 (a rank is busy from its first task to its last; the ranks' spans are shifted by
// one forward each). With other times (p - 1) (F + I - 2 W) if that is positive.
// The bubble vanishes from m = 2 p - 1.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// Returns the schedule for `shape`. Throws InputError unless it has one chunk per rank.
Schedule zb_h2_schedule(const PipelineShape& shape);

}  // namespace weft
