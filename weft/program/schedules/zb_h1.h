// Schedule: ZB-H1 (Qi et al. 2024, arXiv:2401.10241, section 2.3): 1F1B with the backward split. The gradient of the input is
// passed on at once, and the weights' part, which no rank waits for, fills the waits at the pipeline's end: rank r delays the
// weight parts of r micro-batches.
//
// Memory: the activations of p micro-batches on every rank, 1F1B's peak.
// Bubble, with equal stages and times F, I, W per micro-batch: (p - 1) (F + I - W), a third of 1F1B's when F = I = W.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// Returns the schedule for `shape`. Throws InputError unless it has one chunk per rank.
Schedule zb_h1_schedule(const PipelineShape& shape);

}  // namespace weft
