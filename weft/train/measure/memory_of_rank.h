// memory_of_rank: how much memory a rank has for its tensors.
#pragma once

#include <c10/core/Device.h>

#include "weft/comm/world.h"

namespace weft {

/// Bytes of the rank's device; on CPUs, and for devices that do not say, the rank's share of its host's memory.
double memory_of_rank(const World& world, c10::Device device);

}  // namespace weft
