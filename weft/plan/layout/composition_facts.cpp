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

CompositionFacts model_facts(const Model& model, int64_t tokens) {
  return {.model = model.name,
          .has_splits = !model.splits.empty(),
          .has_sequences = model.splits_sequences,
          .has_statistics = !first_block(model, has_statistics).empty(),
          .apart = first_block(model, [](Block& block) { return has_statistics(block) && !block.can_join_batches(); }),
          .whole = first_block(model, [](Block& block) { return !block.can_join_batches(); }),
          .tokens = tokens,
          .chunks_loss = chunks_loss(model)};
}

CompositionFacts with_layout(CompositionFacts facts, const LayoutOptions& options, const StepCounts& counts) {
  facts.cp = counts.cp;
  facts.tp = counts.tp;
  facts.sequence_parallel = options.sequence_parallel;
  facts.reproducible_tp = counts.reproducible_tp;
  facts.narrow = options.precision != Precision::fp32;
  facts.sync = options.sync_batch_norm;
  facts.reproducible = counts.reproducible;
  facts.tensor_norms = counts.tensor_norms;
  facts.noise_scale = counts.noise_scale;
  facts.whole_tensors = counts.whole_tensors;
  facts.offloads = options.offload_optimizer != Offload::none || options.offload_parameters != Offload::none;
  facts.master = options.master;
  facts.data_ranks = counts.dp * counts.shard;
  facts.shards = options.shard_level != ShardLevel::none;
  facts.offloads_activations = options.offload_activations != Offload::none;
  facts.scales_losses = options.precision == Precision::fp16;
  facts.loss_chunk = options.loss_chunk;
  return facts;
}

CompositionFacts facts_of(const Model& model, const LayoutOptions& options, const StepCounts& counts, int64_t tokens) {
  return with_layout(model_facts(model, tokens), options, counts);
}

}  // namespace weft
