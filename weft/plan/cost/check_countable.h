// check_countable: checks that a model's costs fit in 64 bits.
#pragma once

#include <cstdint>

#include "weft/recipe/recipe.h"

namespace weft {

/// Throws InputError for a model whose costs CostTable could not count in 64 bits; build_program() checks the counts of a step.
void check_countable(const Recipe& recipe, int64_t micro_batch);

}  // namespace weft
