// Schedule: ZB-V (Qi et al. 2024, arXiv:2405.15362, section 4.3): the backward is split, and a rank holds two chunks in the
// shape of a V: stage s on rank s on the way down, on rank 2 p - 1 - s on the way up. A micro-batch's first and last stage meet
// on rank 0, so every rank frees activations early.
//
// Memory: the activations of 2 p chunks on every rank, p in units of a rank's whole part of the model: 1F1B's peak.
// Bubble, with equal stages and F = I = W: 0 from m = 2 p - 1, like ZB-H2 but with half the memory.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// Returns the schedule for `shape`. Throws InputError unless it has two chunks per rank.
Schedule zb_v_schedule(const PipelineShape& shape);

}  // namespace weft
