// What can be said about the keys of a recipe together, without data and ranks.
#pragma once

#include <cstddef>

#include "weft/train/recipe/recipe.h"

namespace weft {

/// Throws InputError for keys that do not go together.
void check_recipe(const Recipe& recipe);

/// The part of it that data rests on.
void check_model_and_data(const Recipe& recipe);

/// The recipe as it were with part `number` of its mixture for its data alone; with a seed of its own.
Recipe recipe_of_part(const Recipe& recipe, size_t number);

}  // namespace weft
