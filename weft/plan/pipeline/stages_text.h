// stages_text: what a plan's stages are, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// What became of the search of an automatic schedule.
struct Searched {
  bool fits = true;               ///< keeps layout.stage_gb
  int64_t fewer_activations = 0;  ///< with which alone it does; 0: with all that were allowed
  bool free_messages = false;     ///< as layout.profile does not tell their links
};

/// What people are told of a plan's stages. `seconds` are those of each block, in any unit.
std::string stages_text(const LayoutRecipe& recipe, const Plan& plan, const std::vector<double>& seconds,
                        const Searched& searched);

}  // namespace weft
