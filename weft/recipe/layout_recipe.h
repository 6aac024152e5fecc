// LayoutRecipe: the section [layout] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

/// The section [layout].
struct LayoutRecipe {
  std::string style = "mesh";      ///< "mesh" | "master" | "naive": textbook forms replace the pp axis | "auto": searched
  std::optional<int64_t> dp;       ///< default: the remaining ranks
  std::optional<int64_t> shard;    ///< default: the remaining ranks unless shard_level is "none", else 1
  int64_t pp = 1;                  ///< pipeline ranks
  int64_t cp = 1;                  ///< context-parallel ranks
  int64_t tp = 1;                  ///< tensor-parallel ranks
  bool sequence_parallel = false;  ///< with tp
  int64_t tp_chunks = 1;           ///< with tp
  std::string context_attention = "auto";  ///< with cp: a name from nn/block_layout.h
  std::string sync_batch_norm = "none";    ///< a name from recipe/sync_batch_norm.h
  std::string schedule = "1f1b";           ///< pp: order in which stages run: a name from program/build/make_schedule.h
  int64_t chunks = 2;                      ///< interleaved: stages per rank
  std::string stages = "auto";             ///< pp: blocks of each stage: "auto" (balanced), "even", or a list: "3,2,3"
  double stage_gb = 0.0;                   ///< stages = "auto": estimated GiB per rank at most; 0: no limit
  int64_t schedule_activations = 0;        ///< auto schedule: most forwards that a rank holds at once; 0: as 1F1B
  std::string schedule_file;               ///< the file of a "csv" schedule
  std::string profile;                 ///< a file of `weft profile`: measured times for stages = "auto" and the auto schedule
  std::string shard_level = "none";    ///< "none" | "optimizer" | "gradients" | "parameters": ZeRO 0 to 3
  bool reshard_after_forward = true;   ///< parameters: release whole weights after forward, gather them again for backward
  int64_t inner_shards = 0;            ///< neighbouring ranks that hold the weights among them until backward; 0: all
  int64_t prefetch = 1;                ///< parameters: blocks gathered ahead; gradients, parameters: reductions in flight
  double gathered_mb = 0.0;            ///< MiB of whole weights held at once at most; 0: no limit
  std::string recompute = "none";      ///< "none" | "blocks" | "attention"
  int64_t recompute_every = 1;         ///< blocks: every k-th
  int64_t loss_chunk = 0;              ///< gpt, llama: tokens whose logits and losses are made at a time; 0: all
  std::string precision = "fp32";      ///< "fp32" | "bf16" | "fp16"
  std::string reduction = "computed";  ///< dtype gradients are kept and reduced in: "computed" (follows precision) or "fp32"
  std::string offload_optimizer = "none";    ///< optimizer state: "none" | "host" | "disk"
  std::string offload_parameters = "none";   ///< the rank's shard of the weights: "none" | "host" | "disk"
  std::string offload_activations = "none";  ///< inputs of recomputed blocks: "none" | "host" | "disk"
  std::string offload_folder;                ///< for state offloaded to disk; empty: $TMPDIR, or /var/tmp
  std::string backend = "auto";              ///< "auto" | "shm" | "gloo" | "nccl"
  std::string across_hosts = "exact";        ///< "exact" | "bf16": for float32 sums, with backend "auto" on CPUs
  double bucket_mb = 0.0;  ///< shard_level "none": gradients are reduced in ranges of about this many MiB; 0: 1/8 of all
};

}  // namespace weft
