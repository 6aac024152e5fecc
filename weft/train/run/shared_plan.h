// shared_plan: the plan of a world, in which nothing is searched twice.
#pragma once

#include "weft/comm/world.h"
#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The plan that make_plan() gives for this world. A schedule or stages that must be searched, which may take seconds, rank 0
/// searches for all: the others read what it found in the store, and build and verify their program from that. Collective;
/// throws as make_plan() does, and CommError on the other ranks for what rank 0 throws, or where it finds nothing within the
/// recipe's timeout, or five minutes where that is shorter.
Plan shared_plan(const Recipe& recipe, const World& world);

}  // namespace weft
