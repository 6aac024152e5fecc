// search_schedule: the automatic schedule of a recipe's pipeline.
//
// It is the one whose simulated step is shortest, of those searched for the stages' times and those by hand that keep the same
// limit of activations. Without layout.profile messages take no time in it, and work its operations; of those equally short
// then, it is the one that is shortest with messages on nominal hardware. Of a long step, whose programs take seconds each,
// only the best of those by hand is compared in full.
#pragma once

#include <vector>

#include "weft/plan/cost/block_work.h"
#include "weft/plan/layout/plan.h"
#include "weft/plan/pipeline/stages_text.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// What a search came to.
struct FoundSchedule {
  Plan plan;
  Searched searched;  ///< what became of the search
};

/// Throws InputError for a step that is too long to be searched. `base` has its layout and the model's cost.
void check_searchable(const Recipe& recipe, const Plan& base);

/// Searches for the schedule. `base` has its layout and the model's cost, `work` is of its blocks on that hardware. Throws
/// InputError where no schedule fits.
FoundSchedule search_schedule(const Recipe& recipe, const Plan& base, const Hardware& hardware,
                              const std::vector<BlockWork>& work);

}  // namespace weft
