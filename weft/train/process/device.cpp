#include "weft/train/process/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/slurm_step.h"

namespace weft {

namespace {

at::Device find_device(const std::string& wish, const World& world) {
  if (wish == "cpu") return at::kCPU;
  const int gpus = at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
  // If srun gave each task its own GPUs, the first is this rank's; otherwise the ranks of a host see the same GPUs.
  if (gpus > 0 && slurm_gpus_per_task() == gpus) return at::Device(at::kCUDA, 0);
  if (wish == "auto" && gpus < world.local_size()) return at::kCPU;
  if (world.local_rank() >= gpus) {
    throw InputError(
        fmt::format("run.device is '{}', but local rank {} has no GPU: {} are visible to this build; use run.device = \"cpu\" "
                    "or fewer ranks",
                    wish, world.local_rank(), gpus));
  }
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(world.local_rank()));
}

}  // namespace

at::Device rank_device(const std::string& wish, const World& world) {
  const at::Device device = find_device(wish, world);
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  return device;
}

}  // namespace weft
