// Checks of a recipe's keys against one another, without data and ranks.
#pragma once

#include "weft/recipe/recipe.h"

namespace weft {

/// Throws InputError for keys that conflict.
void check_recipe(const Recipe& recipe);

}  // namespace weft
