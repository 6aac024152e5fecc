// Schedule: ZB-V (Qi et al. 2024, arXiv:2405.15362, section 4.3): the backward is split, and a rank holds two chunks in the
// shape of a V: stage s on rank s on the way down, on rank 2 p - 1 - s on the way up. A micro-batch's first and last stage meet
// on rank 0, so every rank frees activations early.
//
// Memory: the activations of 2 p chunks on every rank, p in units of all that a rank holds of the model: 1F1B's peak.
// Bubble, with equal stages and F = I = W: none, as ZB-H2's at half the memory, from m = 2 p - 1.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// The schedule for `shape`. Throws InputError unless that has two chunks a rank.
Schedule zb_v_schedule(const PipelineShape& shape);

}  // namespace weft
