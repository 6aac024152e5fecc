// Schedule: GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards.
//
// Backwards are in ascending order too, where the paper's figure has them descending: gradients are then summed in the one
// order that all schedules share, and the time is the same.
// Memory: the activations of all m micro-batches (of their inputs alone where everything is recomputed, as in the paper).
// Bubble, with equal stages on p ranks: (p - 1) / (m + p - 1). Runs with any m; the paper finds the bubble small from m = 4 p.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// The schedule for `shape`. Throws InputError unless that has one chunk a rank.
Schedule gpipe_schedule(const PipelineShape& shape);

}  // namespace weft
