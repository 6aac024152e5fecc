// The optimizer that a recipe names.
#pragma once

#include <string>
#include <vector>

#include "weft/optim/optimizer_options.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The names of optimizers in recipes.
std::vector<std::string> optimizer_names();

/// The optimizer of a recipe. Throws InputError for a name that none has.
OptimizerOptions optimizer_of(const OptimizerRecipe& recipe);

}  // namespace weft
