// What a recipe's training step would take on some hardware, on any number of ranks, without data, devices or weights.
#pragma once

#include "weft/program/hardware.h"
#include "weft/program/simulate.h"
#include "weft/train/plan.h"

namespace weft {

struct RecipeSimulation {
  Plan plan;
  Simulation simulation;
  double samples_per_s = 0.0;
  double tokens_per_s = 0.0;  ///< 0 for models that read images
};

/// Throws InputError as resolve() and check_hardware() do. What is wrong with the hardware names `hardware_path`, the file it
/// came from, if it is told.
RecipeSimulation recipe_simulation(const Recipe& recipe, int world_size, const Hardware& hardware,
                                   const std::string& hardware_path = {});

}  // namespace weft
