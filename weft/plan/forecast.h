// Forecast of a recipe's training step: its memory and time on any number of ranks, without data, devices or weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/plan/layout/plan.h"
#include "weft/program/memory.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulation.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Simulation of a recipe's step.
struct RecipeSimulation {
  Plan plan;              ///< the simulated plan
  Simulation simulation;  ///< simulation of plan.program
  /// The same for a step that is launched as a captured graph (run.graph), if one can be; empty without
  /// Hardware::graph_launch_s.
  std::optional<Simulation> captured = {};
  double samples_per_s = 0.0;  ///< rate for the global batch
  double tokens_per_s = 0.0;   ///< 0 for models that read images
};

/// Memory of a recipe.
struct RecipeMemory {
  Plan plan;                                       ///< the estimated plan
  int64_t parameters = 0;                          ///< trained elements of the whole model, without padding
  std::vector<MemoryEstimate> by_stage_rank = {};  ///< by place on the pipeline axis; other ranks hold the same
  int fullest = 0;                                 ///< the place with the largest estimate
  /// Estimate of the ranks that hold most.
  const MemoryEstimate& estimate() const { return by_stage_rank[static_cast<size_t>(fullest)]; }
};

/// Estimates the memory of a recipe's ranks; `costs` as for make_plan(), `ranks_per_host` as in cost/rank_memory.h. Throws
/// InputError as make_plan() does.
RecipeMemory recipe_memory(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs = nullptr,
                           int ranks_per_host = 0);

/// True if the program's gradient sums travel between hosts in half their bytes: layout.across_hosts with float32.
bool crosses_narrow(const Recipe& recipe, const Program& program);

/// Returns the hardware as a run of the recipe uses it: with the threads that each of its ranks computes with.
Hardware with_threads(Hardware hardware, const Recipe& recipe, int world_size);

/// Simulates a plan's step as one that is not captured. `recipe` is for the hardware's kind of device (for_hardware()). Throws
/// InputError as simulate() does, and if the hardware's times were measured with other micro-batches.
RecipeSimulation plan_simulation(const Recipe& recipe, Plan plan, const Hardware& hardware);

/// Simulates a recipe's step, on devices of the hardware's kind (for_hardware()). Throws InputError as make_plan() and
/// simulate() do, and if the hardware's times were measured with other micro-batches. Errors about the hardware name
/// `hardware_path`, the file it came from, if given.
RecipeSimulation recipe_simulation(const Recipe& recipe, int world_size, const Hardware& hardware,
                                   const std::string& hardware_path = {}, std::shared_ptr<CostTable> costs = nullptr);
/// The same for the recipe's plan, which must be for devices of the hardware's kind.
RecipeSimulation recipe_simulation(const Recipe& recipe, Plan plan, const Hardware& hardware, const std::string& hardware_path);

}  // namespace weft
