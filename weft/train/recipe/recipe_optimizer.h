// The optimizer that a recipe names.
#pragma once

#include "weft/optim/optimizer.h"
#include "weft/train/recipe/recipe.h"

namespace weft {

/// The optimizer of a recipe. Throws InputError for a name that none has.
OptimizerOptions optimizer_of(const OptimizerRecipe& recipe);

}  // namespace weft
