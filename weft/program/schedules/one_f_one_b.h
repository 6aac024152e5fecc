// Schedule: 1F1B with a flush (PipeDream-Flush, Narayanan et al. 2021, arXiv:2006.09503; Megatron-LM's default): as few
// forwards as fill the pipeline, then one forward and one backward in turn.
//
// Memory: rank r of p holds the activations of p - r micro-batches, so p at most, however many there are.
// Bubble, with equal stages: (p - 1) / (m + p - 1), as GPipe's.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// The schedule for `shape`. Throws InputError unless that has one chunk a rank.
Schedule one_f_one_b_schedule(const PipelineShape& shape);

}  // namespace weft
