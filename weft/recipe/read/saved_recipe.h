// The recipe that a checkpoint holds, which keeps its values as text (recipe_values.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// Values without those that nothing read: earlier versions took them, and did nothing with them.
std::map<std::string, std::string> used_values(const std::map<std::string, std::string>& values);

/// The recipe of which recipe_values() are these, as far as they were read, with `overrides` as load_recipe() takes them.
/// `path` is its path, and names it in errors. Throws InputError for values that are no recipe's.
Recipe recipe_of_values(const std::map<std::string, std::string>& values, const std::string& path,
                        const std::vector<std::string>& overrides = {});

}  // namespace weft
