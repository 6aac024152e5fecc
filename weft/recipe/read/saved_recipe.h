// The recipe stored in a checkpoint, which keeps its values as text (recipe_values.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// Returns the values without unread keys: earlier versions accepted and ignored them.
std::map<std::string, std::string> used_values(const std::map<std::string, std::string>& values);

/// Rebuilds a recipe from its recipe_values(), ignoring unread keys, with `overrides` as in load_recipe(). `path` is its path,
/// and names it in errors. Throws InputError for values that no recipe can have.
Recipe recipe_of_values(const std::map<std::string, std::string>& values, const std::string& path,
                        const std::vector<std::string>& overrides = {});

}  // namespace weft
