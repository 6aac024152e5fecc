// MicroBatch: the engine's input.
#pragma once

#include <functional>

#include "weft/nn/block.h"

namespace weft {

/// A micro-batch as the engine takes it.
struct MicroBatch {
  Tensors inputs;     ///< inputs of the first block, on the run's device
  at::Tensor target;  ///< target that the loss compares with the last block's outputs
};

/// Hands out a rank's micro-batches, first to last.
using NextMicroBatch = std::function<MicroBatch()>;

}  // namespace weft
