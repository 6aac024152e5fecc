// step_bytes: that a step stays within the elements and bytes that weft counts with (limits.h), told before it is made.
#pragma once

#include "weft/program/build/step_layout.h"
#include "weft/program/program.h"

namespace weft {

/// Throws InputError, saying what would do, for negative sizes, and where elements, activations or what is sent may be more
/// than the limits.
void check_step_bytes(const ModelCost& model, const StepLayout& layout);

}  // namespace weft
