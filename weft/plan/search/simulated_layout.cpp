#include "weft/plan/search/simulated_layout.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/plan/forecast.h"
#include "weft/plan/make_plan.h"

namespace weft {

SimulatedLayout simulated_layout(const SearchSpace& space, const LayoutChoice& choice, const Hardware& hardware,
                                 const std::shared_ptr<CostTable>& costs) {
  const Recipe recipe = recipe_of(space, choice);
  SimulatedLayout result;
  try {
    const RecipeSimulation step = plan_simulation(recipe, unverified_plan(recipe, space.world, costs), hardware);
    result.step_s = step.simulation.step_s;
    for (const SimulatedRank& rank : step.simulation.ranks) {
      result.bytes = std::max({result.bytes, rank.memory.total(), rank.memory.reserved_bytes});
    }
  } catch (const InputError& error) {
    result.why_not = error.what();
  }
  return result;
}

std::string why_no_ramp(const Recipe& recipe, int world_size, const std::shared_ptr<CostTable>& costs) {
  if (recipe.batch.ramp.empty()) return {};
  try {
    make_plan(recipe, world_size, costs);
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace weft
