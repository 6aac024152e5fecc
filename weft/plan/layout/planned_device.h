// planned_device: the kind of device that a recipe is planned for, which need not be there.
#pragma once

#include "weft/base/target_device.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The kind that run.device names; "auto": a GPU if this process's LibTorch sees one, which is then what a run takes.
TargetDevice planned_device(const Recipe& recipe);

/// Returns the recipe for the kind of device that the hardware names, if it names one. Throws InputError if run.device names
/// another.
Recipe for_hardware(const Recipe& recipe, const Hardware& hardware);

}  // namespace weft
