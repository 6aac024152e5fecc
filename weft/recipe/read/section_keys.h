// Key tables of a recipe's first sections, and the helpers that build tables.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "weft/recipe/limits.h"
#include "weft/recipe/recipe.h"
#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// Values from `min`, inclusive, to `max`.
constexpr KeyRange from(double min, double max = kMostCount) { return {.min = min, .max = max}; }
/// Values above `min`.
constexpr KeyRange above(double min, double max = std::numeric_limits<double>::infinity()) {
  return {.min = min, .max = max, .open_min = true};
}
/// Values from 0, inclusive, to below 1.
constexpr KeyRange zero_to_below_one() { return {.min = 0.0, .max = 1.0, .open_max = true}; }

std::vector<FileKey> model_keys(ModelRecipe& model);     ///< [model]
std::vector<FileKey> data_keys(DataRecipe& data);        ///< [data]
std::vector<FileKey> layout_keys(LayoutRecipe& layout);  ///< [layout]

/// Keys of one part of a mixture; `section` is "data.mix" while reading, or "data.mix.1" for the first existing part.
std::vector<FileKey> mix_keys(MixPart& part, const std::string& section);

}  // namespace weft
