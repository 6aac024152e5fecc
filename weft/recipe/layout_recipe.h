// LayoutRecipe: the section [layout] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

/// The section [layout].
struct LayoutRecipe {
  std::string style = "mesh";              ///< "mesh" | "master" | "naive": a textbook form takes the pp axis
  std::optional<int64_t> dp;               ///< default: the ranks that remain
  std::optional<int64_t> shard;            ///< default: the ranks that remain where shard_level is not "none", else 1
  int64_t pp = 1;                          ///< pipeline ranks
  int64_t cp = 1;                          ///< context-parallel ranks
  int64_t tp = 1;                          ///< tensor-parallel ranks
  bool sequence_parallel = false;          ///< with tp
  int64_t tp_chunks = 1;                   ///< with tp
  std::string context_attention = "auto";  ///< with cp: a word of nn/block_layout.h
  std::string sync_batch_norm = "none";    ///< a word of recipe/sync_batch_norm.h
  std::string schedule = "1f1b";           ///< pp: in which order stages run: a name of program/build/make_schedule.h
  int64_t chunks = 2;                      ///< interleaved: stages a rank
  std::string stages = "auto";             ///< pp: blocks of each stage: "auto" (balanced), "even", or as many numbers: "3,2,3"
  double stage_gb = 0.0;                   ///< stages = "auto": most GiB that a rank may hold, as estimated; 0: no limit
  int64_t schedule_activations = 0;        ///< auto schedule: most forwards that a rank holds at a time; 0: as 1F1B
  std::string schedule_file;               ///< csv schedule
  std::string profile;                 ///< a file of `weft profile`: measured times for stages = "auto" and the auto schedule
  std::string shard_level = "none";    ///< "none" | "optimizer" | "gradients" | "parameters": ZeRO 0 to 3
  bool reshard_after_forward = true;   ///< parameters: release whole weights after forward, gather them again for backward
  int64_t inner_shards = 0;            ///< after forward, over so many neighbours only; 0: all
  int64_t prefetch = 1;                ///< parameters: blocks gathered ahead; gradients, parameters: reductions under way
  double gathered_mb = 0.0;            ///< most whole weights at a time; 0: no limit
  std::string recompute = "none";      ///< "none" | "blocks" | "attention"
  int64_t recompute_every = 1;         ///< blocks: every k-th
  std::string precision = "fp32";      ///< "fp32" | "bf16" | "fp16"
  std::string reduction = "computed";  ///< gradients are kept and reduced "computed" (as the precision says) or in "fp32"
  std::string offload_optimizer = "none";    ///< optimizer state: "none" | "host" | "disk"
  std::string offload_parameters = "none";   ///< the rank's shard of the weights: "none" | "host" | "disk"
  std::string offload_activations = "none";  ///< inputs of blocks that are computed again: "none" | "host" | "disk"
  std::string offload_folder;                ///< of what is offloaded to disk; empty: $TMPDIR, or /var/tmp
  std::string backend = "auto";              ///< "auto" | "shm" | "gloo" | "nccl"
  std::string across_hosts = "exact";        ///< "exact" | "bf16": of sums of float32, with backend "auto" on CPUs
  double bucket_mb = 0.0;  ///< shard_level "none": gradients are reduced in ranges of about so many MiB; 0: an eighth
};

}  // namespace weft
