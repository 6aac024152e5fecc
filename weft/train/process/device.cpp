#include "weft/train/process/device.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/slurm_step.h"
#include "weft/base/units.h"

namespace weft {

namespace {

InputError too_few(const std::string& wish, const World& world, int devices) {
  const std::string seen = devices == 0 ? "no GPU" : counted(devices, "GPU");
  return InputError(fmt::format(
      "run.device = \"{}\": this host has {} for this build of LibTorch, but {}; start at most one rank per GPU, or set "
      "run.device = \"cpu\"",
      wish, seen, counted(world.local_size(), "rank")));
}

}  // namespace

at::Device rank_device(const std::string& wish, const World& world) {
  if (wish == "cpu") return at::kCPU;
  const int devices = at::accelerator::deviceCount();
  if (devices == 0 && wish == "auto") return at::kCPU;
  // Without devices of its own, the build has no type for them.
  if (devices == 0 || (wish != "auto" && at::Device(wish).type() != at::accelerator::getAccelerator())) {
    throw too_few(wish, world, 0);
  }
  const at::DeviceType type = *at::accelerator::getAccelerator();
  // If srun gave each task its own GPUs, the first is this rank's; otherwise the ranks of a host see the same GPUs.
  if (slurm_gpus_per_task() == devices) return {type, 0};
  if (world.local_size() > devices) throw too_few(wish, world, devices);
  return {type, static_cast<at::DeviceIndex>(world.local_rank())};
}

}  // namespace weft
