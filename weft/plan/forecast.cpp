#include "weft/plan/forecast.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "weft/base/cores.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/cost/rank_memory.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/make_plan.h"
#include "weft/program/simulate/simulate.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

RecipeMemory recipe_memory(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs, int ranks_per_host) {
  RecipeMemory memory;
  memory.plan = make_plan(recipe, world_size, std::move(costs));
  for (const BlockCost& block : memory.plan.cost.blocks) memory.parameters += block.parameters;
  memory.by_stage_rank = memory_by_stage_rank(recipe, memory.plan, ranks_per_host);
  memory.fullest = fullest_stage_rank(memory.by_stage_rank);
  return memory;
}

bool crosses_narrow(const Recipe& recipe, const Program& program) {
  return recipe.layout.across_hosts == "bf16" && program.gradient_bytes == 4;
}

namespace {

/// Threads per rank, as a run takes them (train/run/options_of_recipe.h), without the environment of its ranks.
int threads_of(const Recipe& recipe, int world_size, const Hardware& hardware) {
  if (recipe.run.threads) return static_cast<int>(*recipe.run.threads);
  if (recipe.run.reproducible_slots > 0 || recipe.run.reproducible_tp > 0) return 1;
  return threads_per_rank(static_cast<int>(hardware.cores.per_host), std::min(world_size, hardware.ranks_per_host));
}

/// What simulate() needs besides a plan's program.
struct StepInputs {
  Hardware hardware;
  std::vector<MemoryOptions> memory = {};  ///< by place on the pipeline axis
  ModelLaunches launches = {};
};

StepInputs step_inputs(const Recipe& recipe, const Plan& plan, const Hardware& hardware) {
  StepInputs inputs{.hardware = with_threads(hardware, recipe, plan.program->world_size())};
  inputs.hardware.narrow_across = crosses_narrow(recipe, *plan.program);
  inputs.memory.reserve(plan.program->mesh.pp);
  for (int pp = 0; pp < plan.program->mesh.pp; ++pp) {
    inputs.memory.push_back(memory_options(recipe, plan, pp, hardware.ranks_per_host));
  }
  if (hardware.host_launch_s) {
    inputs.launches = plan.costs->model_launches(plan.layout.micro_batch, plan.layout.options, plan.layout);
  }
  return inputs;
}

RecipeSimulation simulated(const Recipe& recipe, Plan plan, const StepInputs& inputs) {
  RecipeSimulation result;
  result.plan = std::move(plan);
  check_micro_batch(inputs.hardware, result.plan.layout.micro_batch);
  result.simulation = simulate(*result.plan.program, inputs.hardware, inputs.memory, inputs.launches);
  if (result.simulation.step_s > 0.0) {
    result.samples_per_s = static_cast<double>(result.plan.layout.global_batch) / result.simulation.step_s;
  }
  result.tokens_per_s = result.samples_per_s * static_cast<double>(tokens_per_sample(recipe.model));
  return result;
}

}  // namespace

Hardware with_threads(Hardware hardware, const Recipe& recipe, int world_size) {
  if (hardware.cores.per_host > 0) hardware.cores.threads = threads_of(recipe, world_size, hardware);
  return hardware;
}

RecipeSimulation plan_simulation(const Recipe& recipe, Plan plan, const Hardware& hardware) {
  const StepInputs inputs = step_inputs(recipe, plan, hardware);
  return simulated(recipe, std::move(plan), inputs);
}

RecipeSimulation recipe_simulation(const Recipe& recipe, int world_size, const Hardware& hardware,
                                   const std::string& hardware_path, std::shared_ptr<CostTable> costs) {
  return recipe_simulation(recipe, make_plan(for_hardware(recipe, hardware), world_size, std::move(costs)), hardware,
                           hardware_path);
}

RecipeSimulation recipe_simulation(const Recipe& recipe, Plan plan, const Hardware& hardware,
                                   const std::string& hardware_path) {
  const Recipe planned = for_hardware(recipe, hardware);
  StepInputs inputs = step_inputs(planned, plan, hardware);
  RecipeSimulation result;
  in_hardware_file(hardware_path, [&] {
    result = simulated(planned, std::move(plan), inputs);
    if (!hardware.graph_launch_s || !can_be_captured(*result.plan.program, inputs.launches)) return;
    inputs.hardware.captured = true;
    result.captured = simulate(*result.plan.program, inputs.hardware, inputs.memory, inputs.launches);
  });
  return result;
}

}  // namespace weft
