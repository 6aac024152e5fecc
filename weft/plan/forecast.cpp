#include "weft/plan/forecast.h"

#include <utility>
#include <vector>

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

RecipeSimulation recipe_simulation(const Recipe& recipe, int world_size, const Hardware& hardware,
                                   const std::string& hardware_path, std::shared_ptr<CostTable> costs) {
  RecipeSimulation result;
  const Recipe planned = for_hardware(recipe, hardware);
  result.plan = make_plan(planned, world_size, std::move(costs));
  std::vector<MemoryOptions> memory;
  memory.reserve(result.plan.program->mesh.pp);
  for (int pp = 0; pp < result.plan.program->mesh.pp; ++pp) {
    memory.push_back(memory_options(planned, result.plan, pp, hardware.ranks_per_host));
  }
  Hardware used = hardware;
  used.narrow_across = crosses_narrow(recipe, *result.plan.program);
  ModelLaunches launches;
  if (hardware.host_launch_s) {
    const ResolvedLayout& layout = result.plan.layout;
    launches = result.plan.costs->model_launches(layout.micro_batch, layout.options, layout);
  }
  in_hardware_file(hardware_path, [&] {
    check_micro_batch(hardware, result.plan.layout.micro_batch);
    result.simulation = simulate(*result.plan.program, used, memory, launches);
    if (!hardware.graph_launch_s || !can_be_captured(*result.plan.program, launches)) return;
    used.captured = true;
    result.captured = simulate(*result.plan.program, used, memory, launches);
  });
  if (result.simulation.step_s > 0.0) {
    result.samples_per_s = static_cast<double>(result.plan.layout.global_batch) / result.simulation.step_s;
  }
  result.tokens_per_s = result.samples_per_s * static_cast<double>(tokens_per_sample(recipe.model));
  return result;
}

}  // namespace weft
