#include "weft/plan/search/layout_choice.h"

#include <fmt/format.h>

namespace weft {

std::vector<int> complexity(const LayoutChoice& choice) {
  const auto& [blocks, pipeline, states] = choice;
  const auto above_one = [](int size) { return size > 1 ? 1 : 0; };
  const int axes =
      above_one(blocks.tp) + above_one(blocks.cp) + above_one(pipeline.pp) + above_one(states.dp) + above_one(states.shard);
  const int recompute = blocks.recompute.every > 0 ? 2 : blocks.recompute.attention ? 1 : 0;
  const int offload = int{states.offload_optimizer} + int{states.offload_parameters} + int{states.offload_activations};
  return {offload, axes, recompute, static_cast<int>(states.level), pipeline.chunks, pipeline.schedule, states.prefetch};
}

std::string block_text(const BlockChoice& blocks) {
  std::string text = fmt::format("tp {}", blocks.tp);
  if (blocks.sequence_parallel) text += ", sequence parallel";
  if (blocks.cp > 1) text += fmt::format(", cp {}, attention by {}", blocks.cp, kContextMethods.of(blocks.attention_over));
  return text;
}

std::string memory_text(const LayoutChoice& choice) {
  const auto& [blocks, pipeline, states] = choice;
  std::string text = states.level == ShardLevel::none ? "whole states" : fmt::format("ZeRO-{}", static_cast<int>(states.level));
  if (pipeline.pp > 1) text += " in a pipeline";
  if (blocks.tp * blocks.cp > 1) text += " with divided layers";
  text += blocks.recompute.every > 0   ? ", recompute blocks"
          : blocks.recompute.attention ? ", recompute attention"
                                       : ", no recompute";
  return states.offloads() ? text + ", offload" : text;
}

}  // namespace weft
