// largest_model: how deep a model may be to fit a number of ranks.
#pragma once

#include <cstdint>

#include "weft/plan/search/layout_search.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Depth of a model, all else of it being the recipe's.
struct LargestModel {
  int64_t layers = 0;      ///< model.layers with which some layout fits; 0: none does, not even with one
  int64_t parameters = 0;  ///< of that model
};

/// Doubles or halves model.layers until it no longer or just fits, then halves the interval to a sixteenth of it: a search
/// each. Throws InputError for a model without layers.
LargestModel largest_model(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options);

}  // namespace weft
