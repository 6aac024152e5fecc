// stages_text: what a plan's stages are, for people.
#pragma once

#include <string>
#include <vector>

#include "weft/train/plan.h"
#include "weft/train/recipe.h"

namespace weft {

/// `seconds` of each block, in any unit.
std::string stages_text(const LayoutRecipe& recipe, const Plan& plan, const std::vector<double>& seconds);

}  // namespace weft
