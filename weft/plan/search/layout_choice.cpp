#include "weft/plan/search/layout_choice.h"

namespace weft {

std::vector<int> complexity(const LayoutChoice& choice) {
  const auto& [blocks, pipeline, states] = choice;
  const auto above_one = [](int size) { return size > 1 ? 1 : 0; };
  const int axes =
      above_one(blocks.tp) + above_one(blocks.cp) + above_one(pipeline.pp) + above_one(states.dp) + above_one(states.shard);
  const int recompute = blocks.recompute.every > 0 ? 2 + 1 : blocks.recompute.attention ? 1 : 0;
  const int offload = int{states.offload_optimizer} + int{states.offload_parameters} + int{states.offload_activations};
  return {offload, axes, recompute, static_cast<int>(states.level), pipeline.chunks, pipeline.schedule, states.prefetch};
}

}  // namespace weft
