// Memory of a recipe's program, on any number of ranks, without data, devices or weights.
#pragma once

#include <vector>

#include "weft/plan/layout/plan.h"
#include "weft/program/memory.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Options of estimate_memory() and simulate() for a place on the pipeline axis.
MemoryOptions memory_options(const Recipe& recipe, const Plan& plan, int pp_rank);

/// Memory of a rank at each place on the pipeline axis.
std::vector<MemoryEstimate> memory_by_stage_rank(const Recipe& recipe, const Plan& plan);

/// The place with the largest estimate.
int fullest_stage_rank(const std::vector<MemoryEstimate>& by_stage_rank);

}  // namespace weft
