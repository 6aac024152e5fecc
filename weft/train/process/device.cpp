#include "weft/train/process/device.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/slurm_step.h"
#include "weft/base/units.h"

namespace weft {

SeenDevices seen_devices() {
  const int count = at::accelerator::deviceCount();
  if (count == 0) return {};
  return {.type = at::accelerator::getAccelerator().value_or(at::kCPU), .count = count};
}

at::Device device_of_rank(const std::string& wish, const LocalPlace& place, const SeenDevices& seen) {
  if (wish == "cpu" || (wish == "auto" && seen.count == 0)) return at::kCPU;
  const bool is_there = seen.count > 0 && (wish == "auto" || at::Device(wish).type() == seen.type);
  if (is_there && place.is_own) return {seen.type, 0};
  if (is_there && place.size <= seen.count) return {seen.type, static_cast<at::DeviceIndex>(place.rank)};
  if (is_there && place.shares) return {seen.type, static_cast<at::DeviceIndex>(place.rank * seen.count / place.size)};
  throw InputError(
      fmt::format("run.device = \"{}\": {} on this host, but LibTorch sees {} here; {}set run.device = \"cpu\"", wish,
                  counted(place.size, "rank"), is_there ? counted(seen.count, "GPU") : "no such device",
                  is_there ? "start at most one rank per GPU, let ranks share GPUs by layout.backend = \"shm\" or \"gloo\", or "
                           : "see that weft and its LibTorch are built for it, or "));
}

at::Device rank_device(const std::string& wish, const World& world, BackendKind backend) {
  const SeenDevices seen = seen_devices();
  // If srun gave each task its own GPUs, the first is this rank's; otherwise the ranks of a host see the same GPUs.
  const bool is_own = seen.count > 0 && slurm_gpus_per_task() == seen.count;
  const bool shares = backend == BackendKind::shm || backend == BackendKind::gloo;
  const at::Device device =
      device_of_rank(wish, {.rank = world.local_rank(), .size = world.local_size(), .is_own = is_own, .shares = shares}, seen);
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  return device;
}

}  // namespace weft
