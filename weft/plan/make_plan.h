// make_plan: plans a recipe. `costs` is a table shared by the plans of many layouts of one model; null: a new one.
#pragma once

#include <memory>

#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Returns the plan of a recipe for a number of ranks, with a verified program. Throws InputError as resolve() does, and if
/// stages or schedule do not fit.
Plan make_plan(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs = nullptr);

/// Returns the plan of make_plan() with a program that is not verified, and without the programs of batch.ramp: to compare
/// many.
Plan unverified_plan(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs);

/// True if make_plan() searches for the schedule or the stages, which may take seconds.
bool is_searched(const Recipe& recipe);
/// Returns the plan of make_plan() for a search result `found` (read_pipeline()), without searching; its stages_text is empty.
Plan make_plan(const Recipe& recipe, int world_size, const PipelineOptions& found);

/// Returns a plan with its layout and the model's costs, but no program.
Plan plan_without_program(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs = nullptr);

/// Throws what make_plan() would throw, except errors that only a search finds; does not search.
void check_plan(const Recipe& recipe, int world_size);

}  // namespace weft
