// What the rules of composition read, taken from a model and a layout.
#include <algorithm>

#include "weft/plan/layout/composition.h"

namespace weft {

namespace {

bool has_statistics(Block& block) {
  const std::vector<ParamSpec> specs = block.parameters();
  return std::any_of(specs.begin(), specs.end(), [](const ParamSpec& spec) { return spec.statistic; });
}

/// First block with `property`; empty if there is none.
template <class Property>
std::string first_block(const Model& model, const Property& property) {
  const auto found =
      std::find_if(model.blocks.begin(), model.blocks.end(), [&](const NamedBlock& named) { return property(*named.block); });
  return found == model.blocks.end() ? "" : found->name;
}

/// Whether the last block can make the losses, and all that reads its outputs in their place takes them.
bool chunks_loss(const Model& model) {
  const auto takes = [](const auto& function) { return !function || function.takes_chunks(); };
  return !model.blocks.empty() && model.blocks.back().block->can_chunk_loss() && takes(model.loss) &&
         takes(model.evaluation_loss) && takes(model.hits) && takes(model.top5);
}

}  // namespace

CompositionFacts facts_of(const Model& model, const LayoutOptions& options, const StepCounts& counts, int64_t tokens) {
  return {.model = model.name,
          .has_splits = !model.splits.empty(),
          .has_sequences = model.splits_sequences,
          .has_statistics = !first_block(model, has_statistics).empty(),
          .apart = first_block(model, [](Block& block) { return has_statistics(block) && !block.can_join_batches(); }),
          .whole = first_block(model, [](Block& block) { return !block.can_join_batches(); }),
          .tokens = tokens,
          .cp = counts.cp,
          .tp = counts.tp,
          .sequence_parallel = options.sequence_parallel,
          .reproducible_tp = counts.reproducible_tp,
          .narrow = options.precision != Precision::fp32,
          .sync = options.sync_batch_norm,
          .reproducible = counts.reproducible,
          .tensor_norms = counts.tensor_norms,
          .noise_scale = counts.noise_scale,
          .whole_tensors = counts.whole_tensors,
          .offloads = options.offload_optimizer != Offload::none || options.offload_parameters != Offload::none,
          .master = options.master,
          .data_ranks = counts.dp * counts.shard,
          .shards = options.shard_level != ShardLevel::none,
          .offloads_activations = options.offload_activations != Offload::none,
          .scales_losses = options.precision == Precision::fp16,
          .loss_chunk = options.loss_chunk,
          .chunks_loss = chunks_loss(model)};
}

}  // namespace weft
