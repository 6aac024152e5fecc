// What a recipe's training step would need and take, on any number of ranks, without data, devices or weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/plan/layout/plan.h"
#include "weft/program/memory.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulation.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The step of a recipe, simulated.
struct RecipeSimulation {
  Plan plan;                   ///< what was simulated
  Simulation simulation;       ///< of plan.program
  double samples_per_s = 0.0;  ///< of the global batch
  double tokens_per_s = 0.0;   ///< 0 for models that read images
};

/// The memory that a recipe needs.
struct RecipeMemory {
  Plan plan;               ///< what was estimated
  int64_t parameters = 0;  ///< trained elements of the whole model, without padding
  std::vector<MemoryEstimate> by_stage_rank =
      {};           ///< of the ranks at each place of the pipeline axis; the others hold the same
  int fullest = 0;  ///< where most is held
  /// The memory of the ranks that hold most.
  const MemoryEstimate& estimate() const { return by_stage_rank[static_cast<size_t>(fullest)]; }
};

/// What a recipe's ranks hold; `costs` as for make_plan(). Throws InputError as that does.
RecipeMemory recipe_memory(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs = nullptr);

/// Whether sums of the program's gradients go from host to host in half their bytes: layout.across_hosts, of float32.
bool crosses_narrow(const Recipe& recipe, const Program& program);

/// Simulates a recipe's step. Throws InputError as make_plan() and simulate() do, and when times of the hardware were measured
/// with other micro-batches. What is wrong with the hardware names `hardware_path`, the file it came from, if it is told.
RecipeSimulation recipe_simulation(const Recipe& recipe, int world_size, const Hardware& hardware,
                                   const std::string& hardware_path = {}, std::shared_ptr<CostTable> costs = nullptr);

}  // namespace weft
