// What commands that run ranks have in common: `weft train`, `weft profile`.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/train/recipe.h"

namespace weft {

/// This program, also when its file was replaced while it ran.
std::string own_path();

/// Prepares this process to be a rank: freed memory is kept, and the recipe says how many threads where nothing else does.
void become_rank(Recipe& recipe, const World& world);

}  // namespace weft
