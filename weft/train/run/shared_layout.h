// shared_layout: the layout of a world whose recipe has layout = "auto", searched once.
#pragma once

#include <functional>
#include <string>

#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Returns the recipe with a layout: its own, or the one that rank 0 searches for all (plan/advice/auto_layout.h) and the
/// others read from the store. On rank 0 `on_note` is told what was chosen. Collective; throws InputError on rank 0 if nothing
/// fits, and CommError on the other ranks for rank 0's error, or if no result arrives within the recipe's timeout, or ten
/// minutes if the timeout is shorter.
Recipe shared_layout(const Recipe& recipe, const World& world, const std::function<void(const std::string&)>& on_note);

}  // namespace weft
