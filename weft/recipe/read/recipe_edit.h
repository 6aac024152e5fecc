// recipe_edit: writes a changed recipe as the text of its file, with only the changed values edited.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// Returns the recipe file's `text` with the values of `recipe`, which differs from the file in single keys: comments, order
/// and all other values stay. `notes` become comment lines at the top, in place of those that an earlier call wrote. `path`
/// names the text in errors. Throws InputError for a text that cannot be edited so.
std::string edited_recipe(const std::string& text, const std::string& path, const Recipe& recipe,
                          const std::vector<std::string>& notes);

}  // namespace weft
