// Pass: sharded parameters (ZeRO-3; fully sharded data parallel, Zhao et al. 2023, arXiv:2304.11277). The whole weights of a
// block are gathered before it runs and released after, in forward and again in backward.
//
// Memory: 1/n of the weights, and the whole ones of the blocks in use. Traffic: (n-1)/n of the weight bytes twice a
// micro-batch; once with reshard_after_forward off, which keeps all whole weights from forward to backward. A block whose next
// use comes right away (the last one, from forward to backward) stays gathered. Comes after update; prefetch moves the gathers.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// How long whole weights stay.
struct ShardParametersOptions {
  bool reshard_after_forward = true;  ///< false: from a micro-batch's forward to its backward
  int inner_shards = 1;               ///< ranks that keep them divided from forward to backward; divides the shards
};

/// Adds gathers and releases around the runs of each block.
InstructionList shard_parameters(InstructionList list, const Program& program, const ShardParametersOptions& options);

}  // namespace weft
