// What commands that run ranks have in common: `weft train`, `weft profile`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Starts `command` as that many ranks and gives their exit status; or, for one rank or none told, runs `here` as one: alone,
/// or in the world that something else started.
int as_ranks(const Recipe& recipe, std::optional<int> num_ranks, const std::vector<std::string>& command,
             const std::function<void(const World&)>& here);

}  // namespace weft
