// The values of a recipe's keys as text, for comparing recipes key by key.
#pragma once

#include <map>
#include <string>

#include "weft/recipe/recipe.h"
#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// Formats a key's value as errors show it; "left out" for an optional key without a value.
std::string value_text(const KeyTarget& target);
/// All values by dotted key: {"model.name": "gpt", ...}.
std::map<std::string, std::string> recipe_values(const Recipe& recipe);

}  // namespace weft
