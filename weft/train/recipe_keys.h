// The keys of a recipe, as one table.
#pragma once

#include <vector>

#include "weft/train/file_keys.h"
#include "weft/train/recipe.h"

namespace weft {

/// The table, with targets in `recipe`, which must outlive it.
std::vector<FileKey> recipe_keys(Recipe& recipe);

/// What can be said about keys together without data and ranks. Throws InputError.
void check_recipe(const Recipe& recipe);

}  // namespace weft
