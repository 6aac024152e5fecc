// MicroBatch: what the engine reads.
#pragma once

#include <functional>

#include "weft/nn/block.h"

namespace weft {

/// One micro-batch as the engine takes it.
struct MicroBatch {
  Tensors inputs;
  at::Tensor target;
};

/// Hands out a rank's micro-batches, first to last.
using NextMicroBatch = std::function<MicroBatch()>;

}  // namespace weft
