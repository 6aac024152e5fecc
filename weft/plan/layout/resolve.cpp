#include "weft/plan/layout/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/multiples.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/limits.h"

namespace weft {

namespace {

/// "layout.pp = 2 x layout.tp = 4": the axes of more than one rank, or the first axis.
std::string axes_text(const std::vector<std::pair<std::string, int64_t>>& axes) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : axes) {
    if (size > 1) parts.push_back(fmt::format("layout.{} = {}", name, size));
  }
  return parts.empty() ? "layout.pp = 1" : fmt::format("{}", fmt::join(parts, " x "));
}

/// Sets the ranks that a textbook form (layout.style) takes.
LayoutRecipe with_style(LayoutRecipe layout, int world) {
  if (layout.style == "mesh") return layout;
  layout.dp = layout.dp.value_or(1);
  layout.shard = layout.shard.value_or(1);
  if (layout.pp == 1) layout.pp = std::max<int64_t>(1, world / (*layout.dp * *layout.shard * layout.cp * layout.tp));
  if (layout.style == "naive") layout.schedule = "naive";
  return layout;
}

void resolve_mesh(const Recipe& recipe, const LayoutRecipe& layout, ResolvedLayout& result) {
  const int64_t model_ranks = layout.pp * layout.cp * layout.tp;
  const std::string model_axes = axes_text({{"pp", layout.pp}, {"cp", layout.cp}, {"tp", layout.tp}});
  if (result.world % model_ranks != 0) {
    throw InputError(fmt::format("{}: {} does not divide the {} ranks (-n); use a multiple of {} ranks", recipe.path,
                                 model_axes, result.world, model_ranks));
  }
  result.pp = static_cast<int>(layout.pp);
  result.cp = static_cast<int>(layout.cp);
  result.tp = static_cast<int>(layout.tp);
  const int64_t world = result.world / model_ranks;
  const bool shard_takes_rest = layout.shard_level != "none" && !layout.shard;
  const int64_t dp = layout.dp.value_or(shard_takes_rest ? 1 : std::max<int64_t>(1, world / layout.shard.value_or(1)));
  const int64_t shard = layout.shard.value_or(shard_takes_rest ? std::max<int64_t>(1, world / dp) : 1);
  const auto refuse_remainder = [&](const char* axis, int64_t size) {
    if (world % size == 0) return;
    throw InputError(fmt::format("{}: layout.{} = {} does not divide the {} ranks (-n{}); use a multiple of {} ranks",
                                 recipe.path, axis, size, world, model_ranks > 1 ? " over " + model_axes : "", size));
  };
  if (layout.shard && !layout.dp) refuse_remainder("shard", *layout.shard);
  if (layout.dp && shard_takes_rest) refuse_remainder("dp", *layout.dp);
  if (dp * shard != world) {
    throw InputError(
        fmt::format("{}: the mesh has {} ranks ({}layout.dp = {} x layout.shard = {}), but the world has {} (-n); leave "
                    "one of them out and it takes the ranks that remain",
                    recipe.path, model_ranks * dp * shard, model_ranks > 1 ? model_axes + " x " : "", dp, shard, result.world));
  }
  result.dp = static_cast<int>(dp);
  result.shard = static_cast<int>(shard);
}

int64_t bytes_of_mb(double mb) { return static_cast<int64_t>(mb * 1024 * 1024); }

LayoutOptions resolve_options(const LayoutRecipe& layout) {
  return {.master = layout.style == "master",
          .pipeline = {.schedule = layout.schedule, .chunks = static_cast<int>(layout.chunks)},
          .shard_level = kShardLevels.value_of(layout.shard_level, "layout.shard_level"),
          .reshard_after_forward = layout.reshard_after_forward,
          .inner_shards = static_cast<int>(layout.inner_shards),
          .prefetch = static_cast<int>(layout.prefetch),
          .gathered_bytes = bytes_of_mb(layout.gathered_mb),
          .recompute_every = layout.recompute == "blocks" ? static_cast<int>(layout.recompute_every) : 0,
          .recompute_parts = layout.recompute == "attention",
          .loss_chunk = layout.loss_chunk,
          .sequence_parallel = layout.sequence_parallel,
          .tp_chunks = static_cast<int>(layout.tp_chunks),
          .attention_over = kContextMethods.value_of(layout.context_attention, "layout.context_attention"),
          .sync_batch_norm = kSyncBatchNorms.value_of(layout.sync_batch_norm, "layout.sync_batch_norm"),
          .precision = kPrecisions.value_of(layout.precision, "layout.precision"),
          .reduce_in_fp32 = layout.reduction == "fp32",
          .offload_optimizer = kOffloads.value_of(layout.offload_optimizer, "layout.offload_optimizer"),
          .offload_parameters = kOffloads.value_of(layout.offload_parameters, "layout.offload_parameters"),
          .offload_activations = kOffloads.value_of(layout.offload_activations, "layout.offload_activations"),
          .offload_folder = layout.offload_folder};
}

void check_slots(const Recipe& recipe, int ranks) {
  const int64_t slots = recipe.run.reproducible_slots;
  if (slots % ranks == 0) return;
  throw InputError(fmt::format(
      "{}: run.reproducible_slots = {} does not divide over {} data-parallel ranks; use a power of two of ranks, at most {}",
      recipe.path, slots, ranks, slots));
}

/// Samples per forward. The global batch must be a multiple of this times `parts` (ranks or slots).
int64_t resolve_micro(const Recipe& recipe, int64_t parts, const std::string& what) {
  const int64_t global = recipe.batch.global;
  const int64_t unit = recipe.batch.micro.value_or(1) * parts;
  if (global % unit == 0) return recipe.batch.micro.value_or(global / parts);
  const std::string divisor = recipe.batch.micro ? fmt::format("{} times batch.micro = {}", what, *recipe.batch.micro) : what;
  const std::string nearest = nearest_multiples(global, unit, kMostCount);
  throw InputError(fmt::format("{}: batch.global = {} does not divide over {}; {}", recipe.path, global, divisor,
                               nearest.empty()
                                   ? fmt::format("nor does any allowed value: use a smaller batch.micro or fewer {}",
                                                 recipe.run.reproducible_slots > 0 ? "slots" : "ranks")
                                   : "the nearest that do: " + nearest));
}

/// Makes a rank's slots the pieces of one micro-batch, whose samples are normalised together.
void join_slots(const Recipe& recipe, ResolvedLayout& layout) {
  const int64_t slots = recipe.run.reproducible_slots;
  if (layout.micro_batch * slots != layout.global_batch) {
    throw InputError(
        fmt::format("{}: batch.micro = {} with layout.sync_batch_norm and run.reproducible_slots = {}: a slot is normalised "
                    "whole as one micro-batch; leave batch.micro out (then {}), or one of the others",
                    recipe.path, layout.micro_batch, slots, layout.global_batch / slots));
  }
  layout.batch_pieces = batch_pieces_of(layout.options.sync_batch_norm, slots, layout.data_ranks());
  layout.micro_batch *= layout.batch_pieces;
  layout.slots = 1;
}

/// Largest micro-batch of a rank's `share` that leaves four micro-batches per stage, so that a pipeline is busy for four fifths
/// of a step; one sample if there is none.
int64_t pipeline_micro(int64_t share, int64_t stages) {
  int64_t micro = std::max<int64_t>(1, share / (4 * stages));
  while (share % micro != 0 || share / micro % stages != 0) {
    if (--micro == 0) return 1;
  }
  return micro;
}

}  // namespace

ResolvedLayout resolve(const Recipe& recipe, int world_size) {
  if (world_size < 1) throw InputError(fmt::format("-n {}: the number of ranks must be at least 1", world_size));
  if (world_size > kMostRanks) {
    throw InputError(fmt::format("-n {}: the number of ranks must be at most {}", world_size, kMostRanks));
  }
  if (recipe.layout.style == "auto") {
    throw InputError(
        fmt::format("{}: layout = \"auto\" is not searched here; weft plan -o writes a recipe "
                    "with the layout that it finds",
                    recipe.path));
  }
  ResolvedLayout layout;
  layout.world = world_size;
  const LayoutRecipe styled = with_style(recipe.layout, world_size);
  resolve_mesh(recipe, styled, layout);
  layout.options = resolve_options(styled);
  layout.global_batch = recipe.batch.global;
  const int ranks = layout.sample_ranks();
  const int64_t slots = recipe.run.reproducible_slots;
  if (slots > 0) {
    check_slots(recipe, ranks);
    layout.micro_batch = resolve_micro(recipe, slots, fmt::format("run.reproducible_slots = {}", slots));
    layout.slots = static_cast<int>(slots / ranks);
  } else {
    layout.micro_batch = resolve_micro(recipe, ranks, fmt::format("{} data-parallel ranks", ranks));
    const bool is_pipeline = layout.pp > 1 && recipe.layout.style == "mesh";
    if (is_pipeline && !recipe.batch.micro) layout.micro_batch = pipeline_micro(layout.micro_batch, layout.pp);
  }
  if (layout.options.sync_batch_norm != SyncBatchNorm::none && slots > 0) join_slots(recipe, layout);
  layout.micro_batches = static_cast<int>(layout.global_batch / layout.micro_batch / layout.data_ranks());
  try {
    check_layout(layout.options, slots > 0);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", recipe.path, error.what()));
  }
  layout.reproducible_tp = static_cast<int>(recipe.run.reproducible_tp);
  layout.reproducible = slots > 0;
  if (recipe.layout.bucket_mb > 0.0) layout.bucket_bytes = std::max<int64_t>(1, bytes_of_mb(recipe.layout.bucket_mb));
  layout.clip = recipe.optimizer.clip > 0;
  layout.tensor_norms = needs_tensor_norms(optimizer_of(recipe.optimizer));
  layout.whole_tensors = needs_whole_tensors(optimizer_of(recipe.optimizer));
  layout.votes = recipe.save.votes();
  layout.on_device = planned_device(recipe) == TargetDevice::gpu;
  layout.noise_scale = recipe.run.noise_scale && has_small_batches(layout.global_batch, layout.micro_batch);
  return layout;
}

}  // namespace weft
