// Which device a rank computes on.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/comm/world.h"

namespace weft {

/// The device that `wish` means: "cpu", "cuda" (the GPU whose index is the rank's local rank) or "auto" (a GPU if this build
/// and host have one for every local rank). Throws InputError when a GPU is asked for and there is none for this rank.
at::Device rank_device(const std::string& wish, const World& world);

}  // namespace weft
