// shared_plan: the plan of a world, with each search done only once.
#pragma once

#include "weft/comm/world.h"
#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Returns make_plan()'s plan for this world. If a schedule or stages must be searched, which may take seconds, rank 0 searches
/// for all: the others read the result from the store, and build and verify their program from it. Collective; throws as
/// make_plan() does, and CommError on the other ranks for rank 0's error, or if no result arrives within the recipe's timeout,
/// or five minutes if the timeout is shorter.
Plan shared_plan(const Recipe& recipe, const World& world);

}  // namespace weft
