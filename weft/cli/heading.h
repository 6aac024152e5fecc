// The line that says what a command is about: recipe, ranks, mesh, batch.
#pragma once

#include <string>

#include "weft/train/recipe.h"
#include "weft/train/resolve.h"

namespace weft {

/// "pp 2 (1f1b) x dp 4"
std::string mesh_text(const ResolvedLayout& layout);

/// "recipes/gpt.toml on 4 ranks: dp 4, a step of 32 samples = 4 x 1 micro-batch of 8"
std::string heading(const Recipe& recipe, const ResolvedLayout& layout);

}  // namespace weft
