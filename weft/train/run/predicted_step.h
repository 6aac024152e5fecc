// predicted_step: what run.hardware predicts for a run, to be shown beside what it measures.
#pragma once

#include <optional>

#include "weft/recipe/recipe.h"
#include "weft/report/report.h"

namespace weft {

/// Simulates the recipe's step on the hardware that run.hardware names, captured as a graph with run.graph; empty if it names
/// none. Call it before the model is made: on CPUs it adds the memory that the process has by then. Throws InputError as
/// recipe_simulation() does.
std::optional<StepPrediction> predicted_step(const Recipe& recipe, int world_size);

}  // namespace weft
