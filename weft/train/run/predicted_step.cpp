#include "weft/train/run/predicted_step.h"

#include <algorithm>
#include <string>

#include "weft/base/accounting.h"
#include "weft/base/shipped_files.h"
#include "weft/base/target_device.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

std::optional<StepPrediction> predicted_step(const Recipe& recipe, int world_size) {
  if (recipe.run.hardware.empty()) return std::nullopt;
  const std::string path = shipped_or_own("hardware", recipe.run.hardware);
  const Hardware hardware = load_hardware(path);
  const RecipeSimulation predicted = recipe_simulation(recipe, world_size, hardware, path);
  const Simulation& step = recipe.run.graph && predicted.captured ? *predicted.captured : predicted.simulation;
  const bool on_cpu = predicted.plan.costs->device() == TargetDevice::cpu;
  int64_t bytes = 0;
  for (const SimulatedRank& rank : step.ranks)
    bytes = std::max(bytes, on_cpu ? rank.memory.total() : rank.memory.reserved_bytes);
  const double before_mb = on_cpu ? peak_rss_mb() : 0.0;
  constexpr double kMiB = 1 << 20;
  return StepPrediction{
      .hardware = hardware.name, .step_s = step.step_s, .memory_mb = before_mb + static_cast<double>(bytes) / kMiB};
}

}  // namespace weft
