#include <iterator>
#include <utility>

#include "weft/comm/call/group_options.h"
#include "weft/nn/block_layout.h"
#include "weft/program/build/make_schedule.h"
#include "weft/program/program.h"
#include "weft/recipe/precision.h"
#include "weft/recipe/read/section_keys.h"
#include "weft/recipe/sync_batch_norm.h"

namespace weft {

namespace {

using LayoutKeys = std::vector<FileKey>;

/// Replicas and pipelines.
LayoutKeys pipeline_keys(LayoutRecipe& l) {
  return {
      {"layout",
       "style",
       &l.style,
       "mesh: from the axes; textbook forms: master over all ranks, naive over the remaining ranks; auto: searched",
       {},
       {"mesh", "master", "naive", "auto"},
       false,
       false,
       true},
      {"layout", "dp", &l.dp, "replicas; left out: the remaining ranks", from(1, 1e6)},
      {"layout", "pp", &l.pp, "pipeline ranks: each holds one or more stages of the model", from(1, 1e6)},
      {"layout", "schedule", &l.schedule, "pp: order in which micro-batches pass through the stages", {}, schedule_names()},
      {"layout", "chunks", &l.chunks, "schedule = \"interleaved\": stages per rank", from(1, 1e4)},
      {"layout", "stages", &l.stages, "pp: blocks of each stage: \"auto\" (balanced), \"even\", or a list: \"3,2,3\""},
      {"layout", "stage_gb", &l.stage_gb, "stages = \"auto\": GiB per rank at most, as `weft memory` counts; 0: no limit",
       from(0, 1e6)},
      {"layout", "schedule_activations", &l.schedule_activations,
       "schedule = \"auto\": micro-batches whose activations a rank holds at most; 0: pp, as in 1f1b", from(0, 1e6)},
      {"layout", "schedule_file", &l.schedule_file, "schedule = \"csv\": its file"},
      {"layout", "profile", &l.profile, "a file from `weft profile` with the times to balance stages and schedule by"},
  };
}

/// Sharding of the state.
LayoutKeys shard_keys(LayoutRecipe& l) {
  return {
      {"layout", "shard", &l.shard,
       "ranks that share one replica's state; left out: the remaining ranks, if anything is sharded", from(1, 1e6)},
      {"layout", "shard_level", &l.shard_level, "state divided over shard", {}, kShardLevels.all()},
      {"layout", "reshard_after_forward", &l.reshard_after_forward, "parameters: release weights between forward and backward"},
      {"layout", "inner_shards", &l.inner_shards, "parameters: neighbours that keep weights until backward; 0: all",
       from(0, 1e6)},
      {"layout", "prefetch", &l.prefetch,
       "parameters: blocks gathered ahead of the running one; gradients, parameters: reductions in flight", from(0, 1000)},
      {"layout", "gathered_mb", &l.gathered_mb, "parameters: most MiB of whole weights at once; 0: no limit", from(0, 1e6)},
  };
}

/// Dtype of the state, recomputation and offloading.
LayoutKeys memory_keys(LayoutRecipe& l) {
  return {
      {"layout", "recompute", &l.recompute, "activations recomputed in backward", {}, {"none", "blocks", "attention"}},
      {"layout", "recompute_every", &l.recompute_every, "recompute = \"blocks\": every k-th", from(1, 10'000)},
      {"layout", "loss_chunk", &l.loss_chunk,
       "gpt, llama: logits and losses are made for this many tokens at a time, and again in backward; 0: for all at once",
       from(0, 1e9)},
      {"layout", "precision", &l.precision, "type of weights and activations", {}, kPrecisions.all()},
      {"layout",
       "reduction",
       &l.reduction,
       "type gradients are reduced in; computed: follows precision",
       {},
       {"computed", "fp32"}},
      {"layout", "offload_optimizer", &l.offload_optimizer, "where optimizer state is kept between steps", {}, kOffloads.all()},
      {"layout",
       "offload_parameters",
       &l.offload_parameters,
       "where shards of the weights are kept; parameters only",
       {},
       kOffloads.all()},
      {"layout",
       "offload_activations",
       &l.offload_activations,
       "where block inputs are kept; recompute = \"blocks\" only",
       {},
       kOffloads.all()},
      {"layout", "offload_folder", &l.offload_folder, "folder for offloaded state; left out: $TMPDIR, or /var/tmp"},
  };
}

/// Parallelism within a layer, and communication.
LayoutKeys inner_layout_keys(LayoutRecipe& l) {
  return {
      {"layout", "cp", &l.cp, "context-parallel ranks", from(1, 16384)},
      {"layout", "tp", &l.tp, "tensor-parallel ranks", from(1, 1e6)},
      {"layout",
       "context_attention",
       &l.context_attention,
       "with cp: how ranks attend over a shared sequence; auto: whichever sends fewer bytes",
       {},
       kContextMethods.all()},
      {"layout",
       "sync_batch_norm",
       &l.sync_batch_norm,
       "ranks whose k-th micro-batches BatchNorm normalises together; all: all that read different samples",
       {},
       kSyncBatchNorms.all()},
      {"layout", "sequence_parallel", &l.sequence_parallel, "with tp: each rank holds part of the tokens between split layers"},
      {"layout", "tp_chunks", &l.tp_chunks,
       "with tp: a layer's sum is sent in this many chunks, each while the next is multiplied", from(1, 64)},
      {"layout", "backend", &l.backend, "communication backend", {}, kBackends.all()},
      {"layout", "across_hosts", &l.across_hosts, "how gradient sums travel between hosts", {}, kAcrossHosts.all()},
      {"layout",
       "bucket_mb",
       &l.bucket_mb,
       "gradients are reduced in ranges of about this many MiB; 0: 1/8 of them or 1.25 x the largest block, 1 to 25; "
       "shard_level = \"none\" only",
       {.min = 0.0, .max = 1e5}},
  };
}

}  // namespace

std::vector<FileKey> layout_keys(LayoutRecipe& layout) {
  LayoutKeys keys;
  const auto add = [&keys](LayoutKeys more) { std::move(more.begin(), more.end(), std::back_inserter(keys)); };
  add(pipeline_keys(layout));
  add(shard_keys(layout));
  add(memory_keys(layout));
  add(inner_layout_keys(layout));
  return keys;
}

}  // namespace weft
