// The tables of a recipe's first sections, and what tables are made with.
#pragma once

#include <limits>
#include <vector>

#include "weft/train/recipe/recipe_keys.h"

namespace weft {

/// Values from `min` on, up to `max`.
constexpr KeyRange from(double min, double max = kMostCount) { return {.min = min, .max = max}; }
/// Values above `min`.
constexpr KeyRange above(double min, double max = std::numeric_limits<double>::infinity()) {
  return {.min = min, .max = max, .open_min = true};
}
/// A share that is not the whole.
constexpr KeyRange zero_to_below_one() { return {.min = 0.0, .max = 1.0, .open_max = true}; }

std::vector<FileKey> model_keys(ModelRecipe& model);  ///< [model]
std::vector<FileKey> data_keys(DataRecipe& data);     ///< [data]

}  // namespace weft
