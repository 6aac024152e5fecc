// Builds the optimizer of a recipe.
#pragma once

#include <string>
#include <vector>

#include "weft/optim/optimizer_options.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Optimizer names in recipes.
std::vector<std::string> optimizer_names();

/// Options of a recipe's optimizer. Throws InputError for an unknown name.
OptimizerOptions optimizer_of(const OptimizerRecipe& recipe);

}  // namespace weft
