// What can be said about the keys of a recipe together, without data and ranks.
#pragma once

#include "weft/recipe/recipe.h"

namespace weft {

/// Throws InputError for keys that do not go together.
void check_recipe(const Recipe& recipe);

}  // namespace weft
