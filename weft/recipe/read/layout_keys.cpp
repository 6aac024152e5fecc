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
       "mesh: as the axes say; textbook forms: master, over all ranks, naive, over those that remain",
       {},
       {"mesh", "master", "naive"}},
      {"layout", "dp", &l.dp, "replicas; left out: the ranks that remain", from(1, 1e6)},
      {"layout", "pp", &l.pp, "pipeline ranks: each holds a stage of the model, or several", from(1, 1e6)},
      {"layout", "schedule", &l.schedule, "pp: in which order micro-batches go through the stages", {}, schedule_names()},
      {"layout", "chunks", &l.chunks, "schedule = \"interleaved\": stages a rank", from(1, 1e4)},
      {"layout", "stages", &l.stages, "pp: blocks of each stage: \"auto\" (balanced), \"even\", or numbers: \"3,2,3\""},
      {"layout", "stage_gb", &l.stage_gb,
       "stages = \"auto\": most GiB that a rank may hold, as `weft memory` counts; 0: no limit", from(0, 1e6)},
      {"layout", "schedule_activations", &l.schedule_activations,
       "schedule = \"auto\": most micro-batches whose activations a rank holds; 0: pp, as 1f1b", from(0, 1e6)},
      {"layout", "schedule_file", &l.schedule_file, "schedule = \"csv\": the file"},
      {"layout", "profile", &l.profile, "a file of `weft profile`, whose times stages and schedule go by"},
  };
}

/// Who holds what of the state.
LayoutKeys shard_keys(LayoutRecipe& l) {
  return {
      {"layout", "shard", &l.shard, "ranks that share one replica's state; left out: those that remain, if anything is sharded",
       from(1, 1e6)},
      {"layout", "shard_level", &l.shard_level, "what is divided over shard", {}, kShardLevels.all()},
      {"layout", "reshard_after_forward", &l.reshard_after_forward, "parameters: release weights between forward and backward"},
      {"layout", "inner_shards", &l.inner_shards, "parameters: neighbours that keep weights till backward; 0: all",
       from(0, 1e6)},
      {"layout", "prefetch", &l.prefetch,
       "parameters: blocks gathered ahead of the one that runs; gradients, parameters: reductions under way", from(0, 1000)},
      {"layout", "gathered_mb", &l.gathered_mb, "parameters: most MiB of whole weights at a time; 0: no limit", from(0, 1e6)},
  };
}

/// In which type it is held, and what is computed again or waits elsewhere.
LayoutKeys memory_keys(LayoutRecipe& l) {
  return {
      {"layout", "recompute", &l.recompute, "what backward computes again", {}, {"none", "blocks", "attention"}},
      {"layout", "recompute_every", &l.recompute_every, "recompute = \"blocks\": every k-th", from(1, 10'000)},
      {"layout", "precision", &l.precision, "type of weights and activations", {}, kPrecisions.all()},
      {"layout",
       "reduction",
       &l.reduction,
       "type gradients are reduced in; computed: that of precision",
       {},
       {"computed", "fp32"}},
      {"layout", "offload_optimizer", &l.offload_optimizer, "where optimizer state waits", {}, kOffloads.all()},
      {"layout",
       "offload_parameters",
       &l.offload_parameters,
       "where shards of the weights wait; parameters only",
       {},
       kOffloads.all()},
      {"layout",
       "offload_activations",
       &l.offload_activations,
       "where block inputs wait; recompute = \"blocks\" only",
       {},
       kOffloads.all()},
      {"layout", "offload_folder", &l.offload_folder, "of what is offloaded to disk; left out: $TMPDIR, or /var/tmp"},
  };
}

/// Within a layer and on the wire.
LayoutKeys inner_layout_keys(LayoutRecipe& l) {
  return {
      {"layout", "cp", &l.cp, "context-parallel ranks", from(1, 16384)},
      {"layout", "tp", &l.tp, "tensor-parallel ranks", from(1, 1e6)},
      {"layout",
       "context_attention",
       &l.context_attention,
       "with cp: how ranks attend over a sequence that they share; auto: as sends fewer bytes",
       {},
       kContextMethods.all()},
      {"layout",
       "sync_batch_norm",
       &l.sync_batch_norm,
       "whose k-th micro-batches BatchNorm normalises together; all: of all ranks that read different samples",
       {},
       kSyncBatchNorms.all()},
      {"layout", "sequence_parallel", &l.sequence_parallel, "with tp: between split layers each rank has a part of the tokens"},
      {"layout", "tp_chunks", &l.tp_chunks,
       "with tp: a layer's sum over it travels in so many chunks, each while the next one is multiplied", from(1, 64)},
      {"layout", "backend", &l.backend, "what moves the bytes", {}, kBackends.all()},
      {"layout", "across_hosts", &l.across_hosts, "how sums of gradients go from host to host", {}, kAcrossHosts.all()},
      {"layout",
       "bucket_mb",
       &l.bucket_mb,
       "gradients are reduced in ranges of about so many MiB; 0: an eighth of them or 1.25 of the largest block, 1 to 25; "
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
