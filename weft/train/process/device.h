// The device that a rank computes on.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/comm/world.h"

namespace weft {

/// Returns the device for `wish`, and makes it the calling thread's current device, where "cuda" without an index leads: "cpu",
/// "cuda" (the GPU whose index is the rank's local rank) or "auto" (a GPU if build and host have one for every local rank).
/// Throws InputError if a GPU is requested and this rank has none.
at::Device rank_device(const std::string& wish, const World& world);

}  // namespace weft
