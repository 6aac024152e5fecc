// make_plan: from a recipe to its plan. Whoever plans many layouts of one model hands on a table of its costs, `costs`; null:
// one of the plan's own.
#pragma once

#include <memory>

#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The plan of a recipe for a number of ranks; its program is verified. Throws InputError as resolve() does, and for stages or
/// a schedule that do not fit.
Plan make_plan(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs = nullptr);

/// Whether make_plan() searches for the schedule or the stages, which may take seconds.
bool is_searched(const Recipe& recipe);
/// The plan that make_plan() would give once its search has found `found` (read_pipeline()), without searching; its stages_text
/// is empty.
Plan make_plan(const Recipe& recipe, int world_size, const PipelineOptions& found);

/// A plan with its layout and what the model costs, but no program.
Plan plan_without_program(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs = nullptr);

/// Throws what make_plan() would throw, but for what only a search can tell; does not search.
void check_plan(const Recipe& recipe, int world_size);

}  // namespace weft
