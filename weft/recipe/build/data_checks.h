// What can be said about a recipe's model and data together, before the data is opened.
#pragma once

#include <cstddef>

#include "weft/recipe/recipe.h"

namespace weft {

/// Throws InputError for keys of model and data that do not go together.
void check_model_and_data(const Recipe& recipe);

/// The recipe as it were with part `number` of its mixture for its data alone; with a seed of its own.
Recipe recipe_of_part(const Recipe& recipe, size_t number);

}  // namespace weft
