// Pass: sharded gradients and optimizer state (ZeRO-1 and 2: Rajbhandari et al. 2020, arXiv:1910.02054). Each block's gradients
// are summed over the shard axis, leaving every rank 1/n, which is then summed over the dp axis, if any (hybrid sharding).
//
// With `every_micro_batch` the sum runs after each backward, into an accumulator of 1/n, and only one block's whole gradients
// exist at once; otherwise it runs once, after the last one, and all whole gradients stay. Memory: these whole gradients, plus
// 1/n of all. Traffic: (n-1)/n of the gradient bytes, times the micro-batches for every_micro_batch, and 2 (d-1)/d of 1/n of
// them over d replicas. Runs after the slots are closed.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Frequency of gradient sums over the shards.
struct ShardGradientsOptions {
  bool every_micro_batch = false;  ///< levels gradients and parameters; false: once per step
};

/// Adds a reduce-scatter per block, and with replicas a reduce of the shard.
InstructionList shard_gradients(InstructionList list, const Program& program, const ShardGradientsOptions& options);

}  // namespace weft
