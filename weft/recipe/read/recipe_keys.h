// The keys of a recipe, as one table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"
#include "weft/recipe/toml/toml_reader.h"
#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// The keys of a recipe, with targets in `recipe`, which must outlive them; also of each part that its mixture has.
std::vector<FileKey> recipe_keys(Recipe& recipe);

/// Its sections that may come any number of times, likewise.
std::vector<RepeatedSection> repeated_recipe_sections(Recipe& recipe);

}  // namespace weft
