// Recipe values that must match on all ranks and that a Trainer cannot see: the meaning of equally shaped blocks (heads,
// dropout), the length of the run, and the contents of the data.
#pragma once

#include <string>

#include "weft/recipe/build/open_data.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Lines for TrainerOptions::agreement: "model.heads: 4". Keys that may differ between hosts, such as data.path, are left out;
/// the data is represented by its sizes and a digest of samples spread over it, which are read.
std::string recipe_agreement(const Recipe& recipe, const Datasets& data);

}  // namespace weft
