// MicroBatch: the engine's input.
#pragma once

#include <functional>
#include <memory>

#include "weft/engine/uploads.h"
#include "weft/nn/block.h"

namespace weft {

/// A micro-batch as the engine takes it.
struct MicroBatch {
  Tensors inputs;                       ///< inputs of the first block, on the run's device
  at::Tensor target;                    ///< target that the loss compares with the last block's outputs
  std::shared_ptr<Upload> upload = {};  ///< of those, if they are being copied to the device; to keep while they are in use
};

/// Hands out a rank's micro-batches, first to last.
using NextMicroBatch = std::function<MicroBatch()>;

}  // namespace weft
