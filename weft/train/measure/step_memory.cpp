#include "weft/train/measure/step_memory.h"

#include "weft/engine/memory_ledger.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

StepMemory step_memory(const Recipe& recipe, const ResolvedLayout& layout, const World& world, const Batch& batch,
                       const GroupOptions& communication) {
  MemoryLedger ledger(communication.device);
  TrainerOptions options = trainer_options(recipe, layout, communication.device);
  options.communication = communication;
  options.ledger = &ledger;
  Trainer trainer(Mesh(world, mesh_axes(layout)), build_model(recipe.model), optimizer_of(recipe.optimizer), options);
  trainer.step(batch);
  ledger.reset_peaks();
  trainer.step(batch);
  return {ledger.device_peak(), ledger.peak_total()};
}

int64_t packed_for_products(const Recipe& recipe, const ResolvedLayout& layout) {
  if (layout.options.precision != Precision::bf16 || !__builtin_cpu_supports("avx512bf16")) return 0;
  const int64_t rows = layout.micro_batch * recipe.model.context / layout.cp + recipe.model.width;
  return 4 * 2 * rows * recipe.model.width / layout.tp;
}

int64_t flags_of_checks(const ResolvedLayout& layout) {
  constexpr int64_t kFlags = 8, kFlagBytes = 512;
  return layout.micro_batches * kFlags * kFlagBytes;
}

}  // namespace weft
