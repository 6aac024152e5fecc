// search_schedule: the automatic schedule of a recipe's pipeline.
//
// It has the shortest simulated step of the schedules found by a search with the stages' times and the built-in ones within the
// same activation limit. Without layout.profile, messages are free and work takes its operation count; ties go to the shortest
// step with messages on nominal hardware. For a long step, whose programs take seconds each, only the best of the built-in
// schedules is compared in full.
#pragma once

#include <vector>

#include "weft/plan/cost/block_work.h"
#include "weft/plan/layout/plan.h"
#include "weft/plan/pipeline/stages_text.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Result of a search.
struct FoundSchedule {
  Plan plan;
  Searched searched;  ///< outcome of the search
};

/// Throws InputError for a step too long to search. `base` has its layout and the model's cost.
void check_searchable(const Recipe& recipe, const Plan& base);

/// Searches for the schedule. `base` has its layout and the model's cost; `work` is the work of its blocks on `hardware`.
/// Throws InputError if no schedule fits.
FoundSchedule search_schedule(const Recipe& recipe, const Plan& base, const Hardware& hardware,
                              const std::vector<BlockWork>& work);

}  // namespace weft
