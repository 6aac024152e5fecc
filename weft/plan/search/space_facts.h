// space_facts: what a recipe's model and hardware say about the layouts to search.
#pragma once

#include "weft/plan/cost/cost_table.h"
#include "weft/plan/search/search_space.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Returns the facts of a recipe for the hardware's kind of device. For a model whose results depend on the
/// micro-batch that the recipe has (batch statistics) it throws InputError as resolve() and check_micro_batch() do.
SpaceFacts space_facts(const Recipe& recipe, int world, const Hardware& hardware, CostTable& costs);

}  // namespace weft
