// Schedule: ZB-H2 (Qi et al. 2024, arXiv:2401.10241, section 2.3): ZB-H1 with twice the memory. Rank r starts 2 (p - 1 - r)
// forwards ahead, enough to be busy until the first gradient comes, and keeps the weight parts of 2 r micro-batches back.
//
// Memory: the activations of 2 p - 1 micro-batches on every rank.
// Bubble, with equal stages and F = I = W: none (a rank is busy from its first task to its last; the ranks' spans are shifted
// by one forward each). With other times (p - 1) (F + I - 2 W) where that is positive.
// The bubble is gone from m = 2 p - 1.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// The schedule for `shape`. Throws InputError unless that has one chunk a rank.
Schedule zb_h2_schedule(const PipelineShape& shape);

}  // namespace weft
