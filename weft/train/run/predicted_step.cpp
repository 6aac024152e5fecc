#include "weft/train/run/predicted_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/shipped_files.h"
#include "weft/base/target_device.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

namespace {

constexpr double kMebibyte = 1 << 20;

/// Reuses the run's plan unless the hardware file is of another kind of device than the run's.
RecipeSimulation simulation_of(const Recipe& recipe, const Plan& plan, const Hardware& hardware, const std::string& path) {
  const bool is_of_kind = hardware.kind.empty() || kTargetDevices.of(plan.costs->device()) == hardware.kind;
  return is_of_kind ? recipe_simulation(recipe, plan, hardware, path)
                    : recipe_simulation(recipe, plan.program->world_size(), hardware, path);
}

StepPrediction simulated_step(const Recipe& recipe, const Plan& plan, double held_mb) {
  const std::string path = shipped_or_own("hardware", recipe.run.hardware);
  const Hardware hardware = load_hardware(path);
  const RecipeSimulation predicted = simulation_of(recipe, plan, hardware, path);
  const Simulation& step = recipe.run.graph && predicted.captured ? *predicted.captured : predicted.simulation;
  const bool on_cpu = predicted.plan.costs->device() == TargetDevice::cpu;
  int64_t bytes = 0;
  for (const SimulatedRank& rank : step.ranks)
    bytes = std::max(bytes, on_cpu ? rank.memory.total() : rank.memory.reserved_bytes);
  return StepPrediction{.hardware = hardware.name,
                        .step_s = step.step_s,
                        .memory_mb = (on_cpu ? held_mb : 0.0) + static_cast<double>(bytes) / kMebibyte};
}

}  // namespace

std::optional<StepPrediction> predicted_step(const Recipe& recipe, const Plan& plan, double held_mb,
                                             const std::function<void(const std::string&)>& on_note) {
  if (recipe.run.hardware.empty()) return std::nullopt;
  try {
    return simulated_step(recipe, plan, held_mb);
  } catch (const InputError& error) {
    if (on_note) on_note(fmt::format("run.hardware predicts nothing for this layout: {}", error.what()));
    return std::nullopt;
  }
}

}  // namespace weft
