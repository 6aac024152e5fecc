#include "weft/plan/layout/layout.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/program/build/make_schedule.h"

namespace weft {

namespace {

PipelineShape shape_of(const LayoutOptions& options, const StepCounts& counts) {
  return {.ranks = counts.pp, .chunks = options.pipeline.chunks, .micro_batches = counts.micro_batches};
}

}  // namespace

StepLayout layout_without_schedule(const LayoutOptions& options, const StepCounts& counts) {
  return {.pp = counts.pp,
          .master = options.master && counts.pp > 1,
          .first_block = options.pipeline.first_block,
          .cp = counts.cp,
          .tp = counts.tp,
          .dp = counts.dp,
          .shard = counts.shard,
          .shard_level = options.shard_level,
          .reshard_after_forward = options.reshard_after_forward,
          .inner_shards = options.inner_shards == 0 || options.inner_shards == counts.shard ? 1 : options.inner_shards,
          .prefetch = options.prefetch,
          .gathered_bytes = options.gathered_bytes,
          .recompute = {.every = options.recompute_every},
          .offload = {.activations = options.offload_activations != Offload::none,
                      .optimizer = options.offload_optimizer != Offload::none,
                      .weights = options.offload_parameters != Offload::none,
                      .beside = {.activations = counts.on_device && options.offload_activations == Offload::host,
                                 .optimizer = counts.on_device && options.offload_optimizer == Offload::host,
                                 .weights = counts.on_device && options.offload_parameters == Offload::host}},
          .uploads = counts.on_device,
          .weight_bytes = weight_bytes(options.precision),
          .gradient_bytes = gradient_bytes(options, counts.reproducible),
          .batch_axes = axes_of(options.sync_batch_norm),
          .keep_order = counts.reproducible,
          .check_finite = options.precision == Precision::fp16,
          .check_largest = true,
          .micro_batches = counts.micro_batches,
          .slots = counts.slots,
          .bucket_bytes = counts.bucket_bytes,
          .clip = counts.clip,
          .tensor_norms = counts.tensor_norms,
          .noise_scale = counts.noise_scale,
          .partial_gradients = has_partial_gradients(options, counts),
          .votes = counts.votes};
}

void check_layout(const LayoutOptions& options, bool reproducible) {
  if (options.tp_chunks < 1) {
    throw InputError(fmt::format("layout: tp_chunks = {}; must be at least 1 (one chunk)", options.tp_chunks));
  }
  if (options.loss_chunk < 0) {
    throw InputError(fmt::format("layout: loss_chunk = {}; must be a number of tokens, or 0 (all)", options.loss_chunk));
  }
  if (options.inner_shards > 0 && (options.shard_level != ShardLevel::parameters || !options.reshard_after_forward)) {
    throw InputError("layout: inner_shards needs shard_level = \"parameters\" and reshard_after_forward");
  }
  if (options.offload_parameters != Offload::none && options.shard_level != ShardLevel::parameters) {
    throw InputError(
        "layout: offload_parameters needs shard_level = \"parameters\" (on one rank too, which gathers whole weights "
        "block by block)");
  }
  if (options.offload_activations != Offload::none && options.recompute_every == 0) {
    throw InputError("layout: offload_activations needs recompute = \"blocks\": other blocks' graphs keep their inputs");
  }
  if (options.precision == Precision::fp16 && reproducible) {
    throw InputError(
        "layout: precision = \"fp16\" with run.reproducible_slots; its loss scale depends on overflows, use \"bf16\"");
  }
}

ScheduleSize schedule_size(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts) {
  ScheduleSize size;
  if (counts.pp > 1 && !options.master) size = schedule_size(options.pipeline.schedule, shape_of(options, counts));
  size.whole_blocks = whole_blocks(model);
  return size;
}

bool is_countable(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts) {
  return is_countable(static_cast<int64_t>(model.blocks.size()), layout_without_schedule(options, counts),
                      schedule_size(model, options, counts));
}

void check_size(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts) {
  check_step_size(static_cast<int64_t>(model.blocks.size()), layout_without_schedule(options, counts),
                  schedule_size(model, options, counts));
}

StepLayout step_layout(const LayoutOptions& options, const StepCounts& counts) {
  StepLayout layout = layout_without_schedule(options, counts);
  layout.schedule = options.pipeline.given;
  if (layout.schedule.tasks.empty() && counts.pp > 1 && !options.master) {
    layout.schedule = make_schedule(options.pipeline.schedule, shape_of(options, counts));
  }
  return layout;
}

bool has_partial_gradients(const LayoutOptions& options, const StepCounts& counts) {
  return options.sequence_parallel && counts.tp > 1 && !counts.noise_scale;
}

BlockLayout block_layout(const LayoutOptions& options, int tp, int batch_pieces) {
  return {.recompute_parts = options.recompute_parts,
          .batch_pieces = batch_pieces,
          .sequence_parallel = options.sequence_parallel && tp > 1,
          .tp_chunks = tp > 1 ? options.tp_chunks : 1,
          .loss_chunk = options.loss_chunk,
          .attention_over = options.attention_over};
}

int weight_bytes(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

int gradient_bytes(const LayoutOptions& options, bool reproducible) {
  return options.reduce_in_fp32 || reproducible ? 4 : weight_bytes(options.precision);
}

}  // namespace weft
