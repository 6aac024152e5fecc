// What a recipe's training step would need and take, on any number of ranks, without data, devices or weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/memory.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulation.h"
#include "weft/train/plan/plan.h"
#include "weft/train/recipe/recipe.h"

namespace weft {

struct RecipeSimulation {
  Plan plan;
  Simulation simulation;
  double samples_per_s = 0.0;
  double tokens_per_s = 0.0;  ///< 0 for models that read images
};

struct RecipeMemory {
  Plan plan;
  int64_t parameters = 0;  ///< trained elements of the whole model, without padding
  std::vector<MemoryEstimate> by_stage_rank =
      {};           ///< of the ranks at each place of the pipeline axis; the others hold the same
  int fullest = 0;  ///< where most is held
  const MemoryEstimate& estimate() const { return by_stage_rank[static_cast<size_t>(fullest)]; }
};

/// Memory of a rank at each place of the pipeline axis. Throws InputError as resolve() does.
RecipeMemory recipe_memory(const Recipe& recipe, int world_size);

/// Throws InputError as resolve() and check_hardware() do. What is wrong with the hardware names `hardware_path`, the file it
/// came from, if it is told.
RecipeSimulation recipe_simulation(const Recipe& recipe, int world_size, const Hardware& hardware,
                                   const std::string& hardware_path = {});

}  // namespace weft
