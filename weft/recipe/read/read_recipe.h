// read_recipe: from a TOML file to a Recipe.
//
// Reading checks everything that needs neither data nor ranks: unknown keys (with the nearest valid one), types, ranges. Every
// error is one InputError line with file, line, key, the value found and the valid values.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// Loads the recipe in the file at `path`. `overrides` are "section.key=value" with a TOML value (a bare word counts as a
/// string).
Recipe load_recipe(const std::string& path, const std::vector<std::string>& overrides = {});

/// Parses a recipe from text; `path` names it in errors, and `overrides` are as in load_recipe().
Recipe parse_recipe(const std::string& text, const std::string& path, const std::vector<std::string>& overrides = {});

}  // namespace weft
