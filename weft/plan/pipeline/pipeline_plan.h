// pipeline_plan: schedule, stages and program of a recipe's plan.
#pragma once

#include <string>
#include <vector>

#include "weft/plan/cost/block_work.h"
#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Returns the text of layout.schedule_file. Throws InputError if it cannot be read.
std::string read_schedule(const LayoutRecipe& layout);

/// Returns the schedule of a recipe that names one (any but "auto"). Throws InputError as make_schedule() does.
Schedule named_schedule(const Recipe& recipe, const ResolvedLayout& layout);

/// Returns the work of each block by which stages = "auto" cuts the model. `base` has its layout and the model's cost.
std::vector<BlockWork> work_of(const Recipe& recipe, const Plan& base);

/// Completes a plan that has its layout and the model's cost. Throws InputError for stages or a schedule that do not fit.
Plan plan_pipeline(const Recipe& recipe, const Plan& base);

/// Throws what plan_pipeline() throws before it searches for a schedule or stages.
void check_pipeline(const Recipe& recipe, const Plan& base);

}  // namespace weft
