#include "weft/plan/layout/planned_device.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/core.h>

#include "weft/base/error.h"

namespace weft {

namespace {

constexpr char kAutomatic[] = "auto";

}  // namespace

TargetDevice planned_device(const Recipe& recipe) {
  if (recipe.run.device != kAutomatic) return kTargetDevices.value_of(recipe.run.device, "run.device");
  return at::accelerator::deviceCount() > 0 ? TargetDevice::gpu : TargetDevice::cpu;
}

Recipe for_hardware(const Recipe& recipe, const Hardware& hardware) {
  Recipe planned = recipe;
  if (hardware.kind.empty()) return planned;
  if (recipe.run.device != kAutomatic && recipe.run.device != hardware.kind) {
    throw InputError(
        fmt::format("{}: run.device = \"{}\", but the devices of {} are of kind \"{}\" (device.kind); leave one out",
                    recipe.path, recipe.run.device, named(hardware), hardware.kind));
  }
  planned.run.device = hardware.kind;
  return planned;
}

}  // namespace weft
