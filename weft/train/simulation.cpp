#include "weft/train/simulation.h"

#include <vector>

#include "weft/train/build_model.h"
#include "weft/train/hardware_file.h"
#include "weft/train/memory.h"

namespace weft {

RecipeSimulation recipe_simulation(const Recipe& recipe, int world_size, const Hardware& hardware,
                                   const std::string& hardware_path) {
  RecipeSimulation result;
  result.plan = plan(recipe, world_size);
  std::vector<MemoryOptions> memory;
  memory.reserve(result.plan.program.mesh.pp);
  for (int place = 0; place < result.plan.program.mesh.pp; ++place) {
    memory.push_back(memory_options(recipe, result.plan, place));
  }
  in_hardware_file(hardware_path, [&] {
    check_micro_batch(hardware, result.plan.layout.micro_batch);
    result.simulation = simulate(result.plan.program, hardware, memory);
  });
  if (result.simulation.step_s > 0.0) {
    result.samples_per_s = static_cast<double>(result.plan.layout.global_batch) / result.simulation.step_s;
  }
  result.tokens_per_s = result.samples_per_s * static_cast<double>(tokens_per_sample(recipe.model));
  return result;
}

}  // namespace weft
