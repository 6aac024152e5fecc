// The keys of a recipe, as one table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"
#include "weft/recipe/toml/toml_reader.h"
#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// The keys of a recipe, with targets in `recipe`, which must outlive them; including those of each part of its mixture.
std::vector<FileKey> recipe_keys(Recipe& recipe);

/// Its repeatable sections, with targets in `recipe` too.
std::vector<RepeatedSection> repeated_recipe_sections(Recipe& recipe);

}  // namespace weft
