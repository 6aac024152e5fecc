// step_bytes: checks, before a step is built, that its elements and bytes stay within weft's limits (limits.h).
#pragma once

#include "weft/program/build/step_layout.h"
#include "weft/program/program.h"

namespace weft {

/// Throws InputError with advice for negative sizes, and if elements, activations or sent bytes may exceed the limits.
void check_step_bytes(const ModelCost& model, const StepLayout& layout);

}  // namespace weft
