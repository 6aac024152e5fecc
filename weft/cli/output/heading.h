// The heading of a command's output: recipe, ranks, mesh, batch.
#pragma once

#include <string>

#include "weft/plan/layout/resolve.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Returns the line: "recipes/gpt.toml on 4 ranks: dp 4, 32 samples per step = 4 x 1 micro-batch of 8".
std::string heading(const Recipe& recipe, const ResolvedLayout& layout);

}  // namespace weft
