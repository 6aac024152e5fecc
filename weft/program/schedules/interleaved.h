// Schedule: interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473, section 2.2; Megatron-LM's virtual pipeline): a rank
// holds v chunks, stage s on rank s mod p, and takes p micro-batches through one chunk before it turns to the next.
//
// Memory: rank r of p holds 2 (p - 1 - r) + (v - 1) p + 1 chunks at most, so p + (p - 1) / v on rank 0, in units of a rank's
// whole part of the model: more than 1F1B's p.
// Bubble, with equal stages: (p - 1) / (v m + p - 1), about 1/v of 1F1B's, for v times the transfers.
// Needs v >= 2 and m a multiple of p.
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// Returns the schedule for `shape`. Throws InputError unless it has at least two chunks per rank, and a multiple of its ranks
/// as micro-batches.
Schedule interleaved_schedule(const PipelineShape& shape);

}  // namespace weft
