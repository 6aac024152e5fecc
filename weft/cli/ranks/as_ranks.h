// Running a command as ranks: `weft train`, `weft profile`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Starts `command` as that many ranks and returns their exit status. For one rank, or without a number, runs `here` in this
/// process: alone, or in the world that something else started.
int as_ranks(const Recipe& recipe, std::optional<int> num_ranks, const std::vector<std::string>& command,
             const std::function<void(const World&)>& here);

}  // namespace weft
