// The keys of a recipe, as one table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/train/recipe/recipe.h"
#include "weft/train/recipe/toml_reader.h"
#include "weft/train/recipe/toml_schema.h"

namespace weft {

constexpr int64_t kMostCount = 1'000'000'000;  ///< of what has no maximum of its own: products of a few stay far inside int64
constexpr int64_t kMostHeads = 10'000;
constexpr int64_t kMostSlots = 1'000'000;

/// The keys of one part of a mixture; `section` is "data.mix" as it is read, or "data.mix.1" of the first there is.
std::vector<FileKey> mix_keys(MixPart& part, const std::string& section);

/// The keys of a recipe, with targets in `recipe`, which must outlive them; also of each part that its mixture has.
std::vector<FileKey> recipe_keys(Recipe& recipe);

/// Its sections that may come any number of times, likewise.
std::vector<RepeatedSection> repeated_recipe_sections(Recipe& recipe);

}  // namespace weft
