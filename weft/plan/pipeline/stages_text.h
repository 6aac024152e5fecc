// stages_text: readable report of a plan's stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Outcome of the search for an automatic schedule.
struct Searched {
  bool fits = true;               ///< within layout.stage_gb
  int64_t fewer_activations = 0;  ///< reduced activation limit needed to fit; 0: the full limit fits
  bool free_messages = false;     ///< messages are taken as free: layout.profile has no times for their links
};

/// Returns the report of a plan's stages. `seconds` are per block, in any unit.
std::string stages_text(const LayoutRecipe& recipe, const Plan& plan, const std::vector<double>& seconds,
                        const Searched& searched);

}  // namespace weft
