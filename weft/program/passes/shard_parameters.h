// Pass: sharded parameters (ZeRO-3; fully sharded data parallel, Zhao et al. 2023, arXiv:2304.11277). Gathers a block's whole
// weights before it runs and releases them after, in forward and again in backward.
//
// Memory: 1/n of the weights, and the whole weights of the blocks in use. Traffic: (n-1)/n of the weight bytes twice per
// micro-batch; once with reshard_after_forward off, which keeps whole weights from forward to backward. A block that is used
// again immediately (the last one, from forward to backward) stays gathered. Runs after update; prefetch moves the gathers.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Lifetime of whole weights.
struct ShardParametersOptions {
  bool reshard_after_forward = true;  ///< false: whole weights are kept from a micro-batch's forward to its backward
  int inner_shards = 1;               ///< ranks that keep whole weights divided until backward; divides the shards
};

/// Adds gathers and releases around the runs of each block.
InstructionList shard_parameters(InstructionList list, const Program& program, const ShardParametersOptions& options);

}  // namespace weft
