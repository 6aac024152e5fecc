// Checks of the library that is loaded, and of a rank's device, of any type: memory, copies through pinned memory and between
// devices.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/train/check/check_line.h"

namespace weft {

/// The loaded LibTorch is the one that weft was built with. `weft`: its version and build options, for the text.
CheckLine check_versions(const std::string& weft);

/// The rank's device. On an accelerator: its free memory, copies of a pinned tensor to it and back, on the first rank of a host
/// also copies from each device in use to the next, and what its driver tells. On the CPU: why these are not checked.
std::vector<CheckLine> check_device(at::Device device, const World& world);

/// Fails if less than four fifths of the device's memory is free before weft has used any.
CheckLine device_memory_line(const std::string& device, int64_t free_bytes, int64_t total_bytes);

}  // namespace weft
