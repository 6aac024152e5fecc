// predicted_step: what run.hardware predicts for a run, to be shown beside what it measures.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"
#include "weft/report/report.h"

namespace weft {

/// Simulates the recipe's step on the hardware that run.hardware names, captured as a graph with run.graph. Empty if it names
/// none, on ranks other than 0, and if the file lacks what this layout uses: that costs the run its prediction, not the run,
/// and `on_note` is told. Call it before the model is made: on CPUs it adds the memory that the process has by then.
std::optional<StepPrediction> predicted_step(const Recipe& recipe, const World& world,
                                             const std::function<void(const std::string&)>& on_note);

}  // namespace weft
