// What ranks that were started with recipes must have alike and a Trainer cannot see: how blocks of the same shapes are meant
// (heads, dropout), how long the run is, and what the data holds.
#pragma once

#include <string>

#include "weft/recipe/build/open_data.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Lines for TrainerOptions::agreement: "model.heads: 4". Keys that a host may have its own value of, such as data.path, are
/// left out; for the data its sizes stand there and a digest of samples spread over it, which are read.
std::string recipe_agreement(const Recipe& recipe, const Datasets& data);

}  // namespace weft
