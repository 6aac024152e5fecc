#include "weft/train/trainer/kept_gradients.h"

#include <utility>

#include "weft/engine/memory_ledger.h"

namespace weft {

void KeptGradients::keep(FlatModel& model, int block, int64_t step) {
  if (std::exchange(step_, step) != step) blocks_.clear();
  const MemoryScope scope(MemoryCategory::gradients);
  if (!blocks_.contains(block)) blocks_[block] = model.flat(block).owned_gradients.clone();
}

at::Tensor KeptGradients::take(int block, int64_t step) {
  if (step != step_) return {};
  const auto kept = blocks_.extract(block);
  return kept.empty() ? at::Tensor() : kept.mapped();
}

}  // namespace weft
