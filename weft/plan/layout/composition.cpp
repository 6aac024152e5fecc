#include "weft/plan/layout/composition.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/base/multiples.h"
#include "weft/nn/tensor_parallel/reproducible_parts.h"

namespace weft {

namespace {

std::string needs_splits(const CompositionFacts& f) {
  if (f.tp == 1 || f.has_splits) return {};
  const char* may = f.model == "exported" ? "name layers in model.tp_columns, tp_rows and tp_vocabulary (docs/exported.md)"
                                          : "a gpt, llama or exported model, or Model::splits of a model in C++";
  return fmt::format("layout.tp = {}: model '{}' has no layers that ranks share; use tp = 1, or {}", f.tp, f.model, may);
}

std::string sequences_for_cp(const CompositionFacts& f) {
  if (f.cp == 1 || f.has_sequences) return {};
  return fmt::format("layout.cp = {}: model '{}' does not read sequences that ranks can share; use cp = 1", f.cp, f.model);
}

std::string statistics_for_cp(const CompositionFacts& f) {
  if (f.cp == 1 || !f.has_statistics) return {};
  return fmt::format("layout.cp = {}: model '{}' has running statistics, which need whole samples; use cp = 1", f.cp, f.model);
}

std::string tokens_for_cp(const CompositionFacts& f) {
  if (f.cp == 1 || f.tokens == 0 || f.tokens % (2 * f.cp) == 0) return {};
  return fmt::format("layout.cp = {}: {} tokens per sample do not divide into the {} equal chunks of a zig-zag cut; use {}",
                     f.cp, f.tokens, 2 * f.cp, nearest_multiples(f.tokens, 2 * f.cp));
}

std::string sequences_for_tokens(const CompositionFacts& f) {
  if (!f.sequence_parallel || f.tp == 1 || f.has_sequences) return {};
  return fmt::format("layout.sequence_parallel: model '{}' does not read sequences; leave it out", f.model);
}

std::string tokens_for_tp(const CompositionFacts& f) {
  const int64_t unit = int64_t{f.tp} * f.cp * (f.cp > 1 ? 2 : 1);
  if (!f.sequence_parallel || f.tp == 1 || f.tokens == 0 || f.tokens / f.cp % f.tp == 0) return {};
  return fmt::format("layout.sequence_parallel: {} tokens per sample do not divide over layout.tp = {}{}; use {}", f.tokens,
                     f.tp, f.cp > 1 ? fmt::format(" x layout.cp = {}", f.cp) : "", nearest_multiples(f.tokens, unit));
}

std::string parts_for_reproducible(const CompositionFacts& f) {
  if (f.reproducible_tp == 0) return {};
  if (!is_power_of_two(f.reproducible_tp)) {
    const int64_t below = floor_power_of_two(f.reproducible_tp);
    return fmt::format("run.reproducible_tp = {} must be a power of two; the nearest are {} and {}", f.reproducible_tp, below,
                       2 * below);
  }
  if (f.reproducible_tp % f.tp == 0) return {};
  return fmt::format("run.reproducible_tp = {}: layout.tp = {} does not divide it; use a power of two for tp, at most {}",
                     f.reproducible_tp, f.tp, f.reproducible_tp);
}

std::string splits_for_reproducible(const CompositionFacts& f) {
  if (f.reproducible_tp == 0 || f.has_splits) return {};
  return fmt::format(
      "run.reproducible_tp = {}: model '{}' has no layers that ranks share; leave it out, or use gpt, llama, or Model::splits "
      "of a model in C++",
      f.reproducible_tp, f.model);
}

std::string whole_tokens_for_reproducible(const CompositionFacts& f) {
  if (f.reproducible_tp == 0 || !f.sequence_parallel) return {};
  return fmt::format(
      "run.reproducible_tp = {} with layout.sequence_parallel, which sums the gradients of norms over each rank's tokens; "
      "leave one of them out",
      f.reproducible_tp);
}

std::string whole_samples_for_reproducible(const CompositionFacts& f) {
  if (f.reproducible_tp == 0 || f.cp == 1) return {};
  return fmt::format(
      "run.reproducible_tp = {} with layout.cp = {}: attention over shared sequences joins vectors whose ends depend on tp; "
      "use cp = 1, or leave it out",
      f.reproducible_tp, f.cp);
}

std::string float32_for_reproducible(const CompositionFacts& f) {
  if (f.reproducible_tp == 0 || !f.narrow) return {};
  return fmt::format(
      "run.reproducible_tp = {}: narrower types round differently in sums over ranks than on one; use layout.precision = "
      "\"fp32\"",
      f.reproducible_tp);
}

std::string resident_state_for_norms(const CompositionFacts& f) {
  if (!f.tensor_norms || !f.offloads) return {};
  return "optimizer.name = \"lars\", \"lamb\" or \"adafactor\" looks at all weights before it updates the first; use "
         "layout.offload_optimizer = \"none\" and layout.offload_parameters = \"none\", or another optimizer";
}

std::string whole_samples_for_noise(const CompositionFacts& f) {
  if (!f.noise_scale || f.cp == 1) return {};
  return fmt::format(
      "run.noise_scale with layout.cp = {}: no rank has the gradients of whole samples; use cp = 1, or leave it out", f.cp);
}

std::string own_samples_for_noise(const CompositionFacts& f) {
  if (!f.noise_scale || f.sync == SyncBatchNorm::none) return {};
  return fmt::format(
      "run.noise_scale with layout.sync_batch_norm = \"{}\": ranks' gradients depend on one another's samples, so "
      "they are not of small batches; leave one of them out",
      kSyncBatchNorms.of(f.sync));
}

std::string whole_layers_for_updates(const CompositionFacts& f) {
  if (!f.whole_tensors || (f.tp == 1 && f.reproducible_tp == 0)) return {};
  return fmt::format(
      "optimizer.name = \"muon\" or \"adafactor\" works on whole tensors, but {} divides them; use shard, dp, "
      "pp or cp, or another optimizer",
      f.tp > 1 ? fmt::format("layout.tp = {}", f.tp) : fmt::format("run.reproducible_tp = {}", f.reproducible_tp));
}

std::string statistics_for_sync(const CompositionFacts& f) {
  if (f.sync == SyncBatchNorm::none || f.has_statistics) return {};
  return fmt::format("layout.sync_batch_norm = \"{}\": model '{}' has no BatchNorm; leave it out", kSyncBatchNorms.of(f.sync),
                     f.model);
}

std::string joined_blocks_for_sync(const CompositionFacts& f) {
  if (f.sync == SyncBatchNorm::none || f.apart.empty()) return {};
  return fmt::format(
      "layout.sync_batch_norm = \"{}\": block '{}' of model '{}' normalises each rank's samples alone; leave it out, or use "
      "cnn, resnet, or weft's BatchNorm2d with Block::can_join_batches() in C++",
      kSyncBatchNorms.of(f.sync), f.apart, f.model);
}

std::string all_ranks_for_slots(const CompositionFacts& f) {
  if (f.sync == SyncBatchNorm::none || f.sync == SyncBatchNorm::all || !f.reproducible) return {};
  return fmt::format(
      "layout.sync_batch_norm = \"{}\" with run.reproducible_slots: which samples are normalised together would depend on "
      "the mesh; use \"all\"",
      kSyncBatchNorms.of(f.sync));
}

std::string float32_for_slots(const CompositionFacts& f) {
  if (f.sync == SyncBatchNorm::none || !f.reproducible || !f.narrow) return {};
  return "layout.sync_batch_norm with run.reproducible_slots: narrower types round differently in sums over several slots; "
         "use layout.precision = \"fp32\"";
}

std::string whole_layers_for_slots(const CompositionFacts& f) {
  if (f.sync == SyncBatchNorm::none || !f.reproducible || f.tp == 1) return {};
  return fmt::format(
      "layout.tp = {} with layout.sync_batch_norm and run.reproducible_slots, whose sums over samples need whole layers; "
      "use tp = 1, or leave one of the others out",
      f.tp);
}

std::string joined_blocks_for_slots(const CompositionFacts& f) {
  if (f.sync == SyncBatchNorm::none || !f.reproducible || f.whole.empty()) return {};
  return fmt::format(
      "layout.sync_batch_norm with run.reproducible_slots: block '{}' of model '{}' does not make its sums over samples in "
      "pieces (Block::can_join_batches); leave one of them out",
      f.whole, f.model);
}

std::string other_axes_for_master(const CompositionFacts& f) {
  if (!f.master || (f.data_ranks == 1 && f.cp == 1 && f.tp == 1)) return {};
  return "layout.style = \"master\" takes all ranks; leave out layout.dp, layout.shard, layout.cp and layout.tp";
}

std::string whole_state_for_master(const CompositionFacts& f) {
  if (!f.master || !f.shards) return {};
  return "layout.style = \"master\": one rank has all of the state; use layout.shard_level = \"none\"";
}

std::string resident_state_for_master(const CompositionFacts& f) {
  if (!f.master || !(f.offloads || f.offloads_activations)) return {};
  return "layout.style = \"master\" offloads nothing; use \"none\" for layout.offload_optimizer, layout.offload_parameters and "
         "layout.offload_activations";
}

std::string unscaled_losses_for_master(const CompositionFacts& f) {
  if (!f.master || !f.scales_losses) return {};
  return "layout.style = \"master\" with layout.precision = \"fp16\": only the master would know the loss scale; use \"bf16\"";
}

std::string own_statistics_for_master(const CompositionFacts& f) {
  if (!f.master || f.sync == SyncBatchNorm::none) return {};
  return fmt::format(
      "layout.style = \"master\" with layout.sync_batch_norm = \"{}\": its ranks do not meet inside blocks; leave one of them "
      "out",
      kSyncBatchNorms.of(f.sync));
}

std::string whole_layers_for_master(const CompositionFacts& f) {
  if (!f.master || f.reproducible_tp == 0) return {};
  return "layout.style = \"master\" with run.reproducible_tp, which divides layers; leave one of them out";
}

std::string own_norms_for_master(const CompositionFacts& f) {
  if (!f.master || !f.noise_scale) return {};
  return "layout.style = \"master\" with run.noise_scale: only the master has norms of gradients; leave one of them out";
}

std::string head_for_chunks(const CompositionFacts& f) {
  if (f.loss_chunk == 0 || f.chunks_loss) return {};
  return fmt::format(
      "layout.loss_chunk = {}: model '{}' makes its logits whole; use 0, or gpt, llama, or in C++ a last block with "
      "Block::can_chunk_loss() and the loss and hits of vocabulary_cross_entropy() and vocabulary_hits()",
      f.loss_chunk, f.model);
}

/// Rows of any width then fill whole vectors.
std::string vectors_for_chunks(const CompositionFacts& f) {
  if (f.reproducible_tp == 0 || f.loss_chunk % kVectorElements == 0) return {};
  return fmt::format(
      "layout.loss_chunk = {} with run.reproducible_tp, whose products are of whole vectors; use a multiple of {}",
      f.loss_chunk, kVectorElements);
}

/// Chunks of losses cannot be told apart by the pieces of a micro-batch (BlockLayout::batch_pieces).
std::string whole_losses_for_slots(const CompositionFacts& f) {
  if (f.loss_chunk == 0 || f.sync == SyncBatchNorm::none || !f.reproducible) return {};
  return fmt::format(
      "layout.loss_chunk = {} with layout.sync_batch_norm and run.reproducible_slots, which sum losses in pieces of a "
      "micro-batch; leave one of them out",
      f.loss_chunk);
}

std::string own_losses_for_master(const CompositionFacts& f) {
  if (!f.master || f.loss_chunk == 0) return {};
  return "layout.style = \"master\" with layout.loss_chunk: the master makes the losses, from whole logits; leave one of them "
         "out";
}

}  // namespace

const std::vector<CompositionRule>& composition_rules() {
  static const std::vector<CompositionRule> rules = {
      {"layout.style = \"master\"", "layout.dp, layout.shard, layout.cp and layout.tp of 1", other_axes_for_master},
      {"layout.style = \"master\"", "layout.shard_level = \"none\"", whole_state_for_master},
      {"layout.style = \"master\"", "no offload", resident_state_for_master},
      {"layout.style = \"master\"", "layout.precision = \"fp32\" or \"bf16\"", unscaled_losses_for_master},
      {"layout.style = \"master\"", "no layout.sync_batch_norm", own_statistics_for_master},
      {"layout.style = \"master\"", "no run.reproducible_tp", whole_layers_for_master},
      {"layout.style = \"master\"", "no run.noise_scale", own_norms_for_master},
      {"layout.style = \"master\"", "no layout.loss_chunk", own_losses_for_master},
      {"layout.loss_chunk", "a last block that makes its losses itself (gpt, llama; Block::can_chunk_loss())", head_for_chunks},
      {"layout.loss_chunk, run.reproducible_tp", "a multiple of 32", vectors_for_chunks},
      {"layout.loss_chunk, run.reproducible_slots", "no layout.sync_batch_norm", whole_losses_for_slots},
      {"layout.tp > 1", "a model with a split table (gpt, llama, exported), whose heads and widths tp divides", needs_splits},
      {"layout.cp > 1", "a model of sequences (gpt, llama)", sequences_for_cp},
      {"layout.cp > 1", "no running statistics (BatchNorm)", statistics_for_cp},
      {"layout.cp > 1", "tokens per sample divisible by 2 cp", tokens_for_cp},
      {"layout.sequence_parallel", "a model of sequences (gpt, llama)", sequences_for_tokens},
      {"layout.sequence_parallel", "tokens per sample divisible by tp x cp", tokens_for_tp},
      {"run.reproducible_tp", "a power of two that layout.tp divides", parts_for_reproducible},
      {"run.reproducible_tp", "a model with a split table (gpt, llama), whose heads and widths it divides",
       splits_for_reproducible},
      {"run.reproducible_tp", "no layout.sequence_parallel", whole_tokens_for_reproducible},
      {"run.reproducible_tp", "no layout.cp", whole_samples_for_reproducible},
      {"run.reproducible_tp", "layout.precision = \"fp32\"", float32_for_reproducible},
      {"layout.sync_batch_norm", "a model with running statistics (BatchNorm)", statistics_for_sync},
      {"layout.sync_batch_norm", "BatchNorm of cnn or resnet, or blocks with Block::can_join_batches()",
       joined_blocks_for_sync},
      {"layout.sync_batch_norm, run.reproducible_slots", "layout.sync_batch_norm = \"all\"", all_ranks_for_slots},
      {"layout.sync_batch_norm, run.reproducible_slots", "layout.precision = \"fp32\"", float32_for_slots},
      {"layout.sync_batch_norm, run.reproducible_slots", "layout.tp = 1", whole_layers_for_slots},
      {"layout.sync_batch_norm, run.reproducible_slots", "cnn or resnet, or blocks that are all Block::can_join_batches()",
       joined_blocks_for_slots},
      {"run.noise_scale", "layout.cp = 1", whole_samples_for_noise},
      {"run.noise_scale", "no layout.sync_batch_norm", own_samples_for_noise},
      {"optimizer.name = \"lars\", \"lamb\", \"adafactor\"", "neither layout.offload_optimizer nor layout.offload_parameters",
       resident_state_for_norms},
      {"optimizer.name = \"muon\", \"adafactor\"", "layout.tp = 1, without run.reproducible_tp", whole_layers_for_updates},
  };
  return rules;
}

void check_composition(const CompositionFacts& facts) {
  for (const CompositionRule& rule : composition_rules()) {
    const std::string why = rule.why_not(facts);
    if (!why.empty()) throw InputError(why);
  }
}

}  // namespace weft
