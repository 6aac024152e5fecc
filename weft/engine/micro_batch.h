// MicroBatch: what the engine reads.
#pragma once

#include <functional>

#include "weft/nn/block.h"

namespace weft {

/// One micro-batch as the engine takes it.
struct MicroBatch {
  Tensors inputs;     ///< of the first block, on the run's device
  at::Tensor target;  ///< what the loss compares the last block's outputs with
};

/// Hands out a rank's micro-batches, first to last.
using NextMicroBatch = std::function<MicroBatch()>;

}  // namespace weft
