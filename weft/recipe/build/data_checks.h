// Checks of a recipe's model and data together, before the data is opened.
#pragma once

#include <cstddef>

#include "weft/recipe/recipe.h"

namespace weft {

/// Throws InputError for model and data keys that conflict.
void check_model_and_data(const Recipe& recipe);

/// Returns the recipe with part `number` of its mixture as its only data, and a distinct seed.
Recipe recipe_of_part(const Recipe& recipe, size_t number);

}  // namespace weft
