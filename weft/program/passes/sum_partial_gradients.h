// Pass: with sequence parallelism, the gradients of parameters that are not split, such as norms', are summed over tp once a
// step, in one buffer (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2, sums them after the backward too).
//
// Runs after replicate or shard_gradients and before tie_weights: sums are of the rank's own part. Memory: one copy of that
// part's partial gradients. Traffic: 2 (n-1)/n of their bytes.
#pragma once

#include "weft/program/block_cost.h"
#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// Appends the sum of the rank's blocks, which `blocks` spans.
InstructionList sum_partial_gradients(InstructionList list, const ModelCost& model, const Program& program,
                                      const Bucket& blocks);

}  // namespace weft
