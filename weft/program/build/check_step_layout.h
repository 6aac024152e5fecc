// check_step_layout: whether a program can be built, before anything is.
#pragma once

#include "weft/program/block_cost.h"
#include "weft/program/build/step_layout.h"

namespace weft {

/// Throws InputError for costs, which may be hand-written, or a layout that no program can have, or that do not fit each other.
void check_step_layout(const ModelCost& model, const StepLayout& layout);

}  // namespace weft
