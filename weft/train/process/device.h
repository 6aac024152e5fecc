// The device that a rank computes on.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/comm/call/group_options.h"
#include "weft/comm/world.h"

namespace weft {

/// Devices that this process's LibTorch sees, other than CPUs; a build has at most one type of them.
struct SeenDevices {
  at::DeviceType type = at::kCPU;  ///< such as at::kCUDA, also for AMD's GPUs; a device of a program's own is at::kPrivateUse1
  int count = 0;                   ///< 0: none
};
SeenDevices seen_devices();

/// Place of a rank among those of its host.
struct LocalPlace {
  int rank = 0;         ///< the local rank
  int size = 1;         ///< ranks on the host
  bool is_own = false;  ///< only this rank sees the devices
  bool shares = false;  ///< a device may have several ranks
};

/// Returns the device for `wish`: "cpu", the name of a type of device in LibTorch, such as "cuda" (the one whose index is the
/// local rank, or the first of the rank's own), or "auto": one of those seen if there are any, else the CPU. If the host has
/// fewer devices than ranks and ranks may share them, neighbouring ranks do. Otherwise throws InputError, also for "auto":
/// training on the CPU beside GPUs would silently be far slower.
at::Device device_of_rank(const std::string& wish, const LocalPlace& place, const SeenDevices& seen);

/// The same for this rank and what its process sees; makes it the calling thread's current device, where "cuda" without an
/// index leads. Ranks may share a device if their groups use `backend` "shm" or "gloo": NCCL takes one rank per GPU.
at::Device rank_device(const std::string& wish, const World& world, BackendKind backend);

}  // namespace weft
