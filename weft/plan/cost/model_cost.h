// model_cost: what the model of a recipe costs, without data or weights.
#pragma once

#include <cstdint>

#include "weft/plan/layout/layout.h"
#include "weft/program/program.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Throws InputError for a model whose costs model_cost() could not count in 64 bits; whether a step's can be is
/// build_program()'s to tell.
void check_countable(const Recipe& recipe, int64_t micro_batch);

/// The model's costs for one micro-batch of `micro_batch` samples on the first of the ranks of cp and tp. Needs no data and
/// allocates no weights. Throws InputError where the model does not split so.
ModelCost model_cost(const Recipe& recipe, int64_t micro_batch, const LayoutOptions& layout = {},
                     const StepCounts& counts = {});

}  // namespace weft
