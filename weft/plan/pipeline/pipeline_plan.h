// pipeline_plan: the pipeline of a recipe's plan: its schedule, where the model is cut into stages, and the program of both.
#pragma once

#include <string>

#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The text of layout.schedule_file. Throws InputError when it cannot be read.
std::string read_schedule(const LayoutRecipe& layout);

/// The schedule of a recipe that names one: any but "auto". Throws InputError as make_schedule() does.
Schedule named_schedule(const Recipe& recipe, const ResolvedLayout& layout);

/// Completes a plan that has its layout and the model's cost. Throws InputError for stages or a schedule that do not fit.
Plan plan_pipeline(const Recipe& recipe, const Plan& base);

/// Throws what plan_pipeline() throws, for what shows before a schedule or stages are searched.
void check_pipeline(const Recipe& recipe, const Plan& base);

}  // namespace weft
