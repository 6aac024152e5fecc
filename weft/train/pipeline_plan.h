// pipeline_plan: the pipeline of a recipe's plan: its schedule, where the model is cut into stages, and the program of both.
//
// The automatic schedule is the one whose simulated step is shortest, of those searched for the stages' times and those by hand
// that keep the same limit of activations. Without layout.profile messages take no time in it, and work its operations; of
// those equally short then, it is the one that is shortest with messages on nominal hardware. Of a long step, whose programs
// take seconds each, only the best of those by hand is compared in full.
#pragma once

#include <string>

#include "weft/train/plan.h"
#include "weft/train/recipe.h"

namespace weft {

/// The text of layout.schedule_file. Throws InputError when it cannot be read.
std::string read_schedule(const LayoutRecipe& layout);

/// Completes a plan that has its layout and the model's cost. Throws InputError for stages or a schedule that do not fit.
Plan plan_pipeline(const Recipe& recipe, const Plan& plan);

}  // namespace weft
