#include "weft/plan/search/layout_forecast.h"

#include <algorithm>
#include <utility>

#include "weft/plan/forecast.h"
#include "weft/plan/search/layout_text.h"
#include "weft/plan/search/limiting.h"

namespace weft {

LayoutForecast layout_forecast(const Recipe& recipe, int world_size, const Hardware& hardware,
                               std::shared_ptr<CostTable> costs) {
  const RecipeSimulation step = recipe_simulation(recipe, world_size, hardware, {}, std::move(costs));
  const Simulation& simulation = step.simulation;
  const auto& ranks = simulation.ranks;
  const auto fuller = [](const SimulatedRank& a, const SimulatedRank& b) { return a.memory.total() < b.memory.total(); };
  const SimulatedRank& fullest = *std::max_element(ranks.begin(), ranks.end(), fuller);
  LayoutForecast result{.recipe = recipe,
                        .keys = layout_keys_of(recipe),
                        .text = layout_text(recipe, step.plan.layout),
                        .approach = approach_of(step.plan.layout),
                        .step_s = simulation.step_s,
                        .samples_per_s = step.samples_per_s,
                        .tokens_per_s = step.tokens_per_s,
                        .mfu = simulation.utilisation,
                        .busy_s = simulation.busiest_s(),
                        .bubble_share = simulation.bubble_share(),
                        .launch_share = simulation.launch_bound_share(),
                        .memory_bytes = fullest.memory.total(),
                        .fullest_rank = fullest.rank,
                        .limited_by = limiting_text(*step.plan.program, simulation)};
  if (simulation.flops > 0.0) result.recompute_share = 1.0 - simulation.model_flops / simulation.flops;
  for (const SimulatedRank& rank : ranks) {
    result.exposed_s = std::max(result.exposed_s, rank.exposed_s);
    result.reserved_bytes = std::max(result.reserved_bytes, rank.memory.reserved_bytes);
  }
  return result;
}

}  // namespace weft
