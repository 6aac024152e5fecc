// model_cost: what the model of a recipe costs, without data or weights.
#pragma once

#include <cstdint>

#include "weft/program/program.h"
#include "weft/train/plan/layout.h"
#include "weft/train/recipe/recipe.h"

namespace weft {

/// Throws InputError for a model whose costs model_cost() could not count in 64 bits; whether a step's can be is
/// build_program()'s to tell.
void check_countable(const Recipe& recipe, int64_t micro_batch);

/// The model's costs for one micro-batch of `micro_batch` samples. Needs no data and allocates no weights.
ModelCost model_cost(const Recipe& recipe, int64_t micro_batch, const LayoutOptions& layout = {}, bool reproducible = false);

}  // namespace weft
