// Schedule: GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards.
//
// Backwards are in ascending order too, where the paper's figure has descending order: gradients are then summed in the one
// order that all schedules share, and the time is the same.
// Memory: the activations of all m micro-batches (with full recompute, as in the paper, only their inputs).
// Bubble, with equal stages on p ranks: (p - 1) / (m + p - 1). Runs with any m; the paper finds the bubble small from m = 4 p.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// Returns the schedule for `shape`. Throws InputError unless it has one chunk per rank.
Schedule gpipe_schedule(const PipelineShape& shape);

}  // namespace weft
