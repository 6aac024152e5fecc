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

namespace {

/// Whether LibTorch multiplies bf16 by oneDNN (ideep::has_bf16_type_support()).
bool onednn_multiplies_bf16() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

bool has_bf16_instructions() { return __builtin_cpu_supports("avx512bf16"); }

}  // namespace

int64_t packed_for_products(const Recipe& recipe, const ResolvedLayout& layout) {
  if (layout.options.precision != Precision::bf16 || !onednn_multiplies_bf16()) return 0;
  const int64_t width = recipe.model.width, rows = layout.micro_batch * recipe.model.context / layout.cp;
  return 4 * 2 * (rows + width) * width / layout.tp + (has_bf16_instructions() ? 0 : 4 * rows * width);
}

int64_t packed_for_updates(const Recipe& recipe) {
  const bool emulates = onednn_multiplies_bf16() && !has_bf16_instructions();
  return recipe.optimizer.name == "muon" && emulates ? 4 * 4 * recipe.model.width * recipe.model.width : 0;
}

int64_t flags_of_checks(const ResolvedLayout& layout) {
  constexpr int64_t kFlags = 8, kFlagBytes = 512;
  return layout.micro_batches * kFlags * kFlagBytes;
}

}  // namespace weft
