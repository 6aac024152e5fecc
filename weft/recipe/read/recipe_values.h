// The values of a recipe's keys as text, for comparing recipes key by key.
#pragma once

#include <map>
#include <string>

#include "weft/recipe/recipe.h"
#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// A key's value, as an error would show it; "left out" for an optional one without.
std::string value_text(const KeyTarget& target);
/// By dotted key: {"model.name": "gpt", ...}.
std::map<std::string, std::string> recipe_values(const Recipe& recipe);

}  // namespace weft
