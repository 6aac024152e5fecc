// The device that a rank computes on.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/comm/world.h"

namespace weft {

/// Returns the device for `wish`: "cpu", the name of a type of device in LibTorch, such as "cuda" (the one whose index is the
/// rank's local rank), or "auto": the build's accelerator if this host has one, else the CPU. Throws InputError if the host has
/// fewer devices than ranks, also for "auto", since training would silently be far slower on the CPU.
at::Device rank_device(const std::string& wish, const World& world);

}  // namespace weft
