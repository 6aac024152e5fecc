// Pass: sharded gradients, and with them sharded optimizer state (ZeRO-1 and 2: Rajbhandari et al. 2020, arXiv:1910.02054).
// Each block's gradients are summed over the shard axis so that every rank is left with its 1/n; those are then summed over the
// dp axis, if there is one (hybrid sharding).
//
// With `every_micro_batch` the sum is made after each backward, into an accumulator of 1/n, and the whole gradients live for
// one block at a time; otherwise once, after the last one, and all whole gradients stay. Memory: whole gradients as said, and
// 1/n. Traffic: (n-1)/n of the gradient bytes, times the micro-batches for every_micro_batch, and 2 (d-1)/d of 1/n of them over
// d replicas. Comes after the slots are closed.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// How often gradients are summed over the shards.
struct ShardGradientsOptions {
  bool every_micro_batch = false;  ///< levels gradients and parameters; false: once a step
};

/// Adds a reduce-scatter of each block, and where there are replicas a reduce of the shard.
InstructionList shard_gradients(InstructionList list, const Program& program, const ShardGradientsOptions& options);

}  // namespace weft
