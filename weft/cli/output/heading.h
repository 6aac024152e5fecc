// The line that says what a command is about: recipe, ranks, mesh, batch.
#pragma once

#include <string>

#include "weft/plan/layout/resolve.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The line: "recipes/gpt.toml on 4 ranks: dp 4, a step of 32 samples = 4 x 1 micro-batch of 8".
std::string heading(const Recipe& recipe, const ResolvedLayout& layout);

}  // namespace weft
