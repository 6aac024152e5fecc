// check_countable: whether a model's costs can be counted.
#pragma once

#include <cstdint>

#include "weft/recipe/recipe.h"

namespace weft {

/// Throws InputError for a model whose costs CostTable could not count in 64 bits; whether a step's can be is build_program()'s
/// to tell.
void check_countable(const Recipe& recipe, int64_t micro_batch);

}  // namespace weft
