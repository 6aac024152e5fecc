// Schedule: 1F1B with a flush (PipeDream-Flush, Narayanan et al. 2021, arXiv:2006.09503; Megatron-LM's default): just enough
// forwards to fill the pipeline, then one forward and one backward in turn.
//
// Memory: rank r of p holds the activations of p - r micro-batches, so p at most, for any m.
// Bubble, with equal stages: (p - 1) / (m + p - 1), the same as GPipe's.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// Returns the schedule for `shape`. Throws InputError unless it has one chunk per rank.
Schedule one_f_one_b_schedule(const PipelineShape& shape);

}  // namespace weft
