// predicted_step: what run.hardware predicts for a run, to be shown beside what it measures.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"
#include "weft/report/report.h"

namespace weft {

/// Simulates a step of the recipe's plan, which rank 0 has, on the hardware that run.hardware names, captured as a graph with
/// run.graph. `held_mb`: what the process held before the model was made, which counts on CPUs. Empty if run.hardware names
/// none, and if the file lacks what this layout uses: that costs the run its prediction, not the run, and `on_note` is told.
/// Call it where no rank waits for this one: large programs take seconds.
std::optional<StepPrediction> predicted_step(const Recipe& recipe, const Plan& plan, double held_mb,
                                             const std::function<void(const std::string&)>& on_note);

}  // namespace weft
