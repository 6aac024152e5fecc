// The optimizer that a recipe names.
#pragma once

#include "weft/optim/optimizer.h"
#include "weft/train/recipe/recipe.h"

namespace weft {

OptimizerOptions optimizer_of(const OptimizerRecipe& recipe);

}  // namespace weft
