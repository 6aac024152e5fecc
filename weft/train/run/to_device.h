// to_device: a loader's micro-batch as the engine takes it, on the device that computes.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/data/dataset.h"
#include "weft/engine/micro_batch.h"

namespace weft {

/// The tensors themselves where they are there already; a target that is undefined stays so. Pinned ones
/// (LoaderOptions::pinned) are copied while the rank goes on; the device's stream waits for them.
MicroBatch to_device(Batch batch, at::Device device);

}  // namespace weft
