// read_recipe: from a TOML file to a Recipe.
//
// Reading checks everything that can be checked without data and ranks: unknown keys (with the nearest valid one), types,
// ranges. Every error is one InputError line that names file, line, key, what was found and what is valid.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// The recipe in the file at `path`. `overrides` are "section.key=value" with the value as TOML (a bare word counts as a
/// string).
Recipe load_recipe(const std::string& path, const std::vector<std::string>& overrides = {});

/// The recipe in a text; `path` names it in errors, and `overrides` are as load_recipe() takes them.
Recipe parse_recipe(const std::string& text, const std::string& path, const std::vector<std::string>& overrides = {});

}  // namespace weft
