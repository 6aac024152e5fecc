// layout_text: a layout in words, and what distinguishes it from the default one.
#pragma once

#include <string>
#include <vector>

#include "weft/plan/layout/resolve.h"
#include "weft/plan/search/layout_forecast.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// "pp 4 (1f1b) x dp 4 x tp 2, ZeRO-1, 8 micro-batches of 4, recompute attention".
std::string layout_text(const Recipe& recipe, const ResolvedLayout& layout);

/// Keys of [layout] that differ from a layout without any, and batch.micro, in the order of a recipe.
std::vector<KeyValue> layout_keys_of(const Recipe& recipe);

/// What a layout does.
Approach approach_of(const ResolvedLayout& layout);

}  // namespace weft
