#include "weft/train/run/predicted_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/accounting.h"
#include "weft/base/error.h"
#include "weft/base/shipped_files.h"
#include "weft/base/target_device.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

namespace {

StepPrediction simulated_step(const Recipe& recipe, int world_size) {
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

}  // namespace

std::optional<StepPrediction> predicted_step(const Recipe& recipe, const World& world,
                                             const std::function<void(const std::string&)>& on_note) {
  if (recipe.run.hardware.empty() || world.rank() != 0) return std::nullopt;
  try {
    return simulated_step(recipe, world.size());
  } catch (const InputError& error) {
    if (on_note) on_note(fmt::format("run.hardware predicts nothing for this layout: {}", error.what()));
    return std::nullopt;
  }
}

}  // namespace weft
