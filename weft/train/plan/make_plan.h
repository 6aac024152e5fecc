// make_plan: from a recipe to its plan.
#pragma once

#include "weft/train/plan/plan.h"
#include "weft/train/recipe/recipe.h"

namespace weft {

/// The plan of a recipe for a number of ranks; its program is verified. Throws InputError as resolve() does, and for stages or
/// a schedule that do not fit.
Plan make_plan(const Recipe& recipe, int world_size);

}  // namespace weft
