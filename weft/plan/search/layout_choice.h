// LayoutChoice: one layout of a search space, as small numbers: what a search compares by the million.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/block_layout.h"
#include "weft/program/program.h"
#include "weft/recipe/precision.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// What a block's backward computes again.
struct RecomputeChoice {
  bool attention = false;  ///< layout.recompute = "attention"
  int every = 0;           ///< layout.recompute = "blocks", every k-th; 0: not
  auto operator<=>(const RecomputeChoice&) const = default;
};

/// What costs of blocks depend on.
struct BlockChoice {
  int64_t micro = 1;
  int tp = 1, cp = 1;
  bool sequence_parallel = false;
  ContextMethod attention_over = ContextMethod::automatic;
  Precision precision = Precision::fp32;
  RecomputeChoice recompute = {};
  auto operator<=>(const BlockChoice&) const = default;
};

/// Stages and their schedule.
struct PipelineChoice {
  int pp = 1;
  int schedule = 0;  ///< index into SearchSpace::schedules; 0 without a pipeline
  int chunks = 0;    ///< 0: not used by the schedule
  int stages = 0;    ///< index into SearchSpace::stages
  auto operator<=>(const PipelineChoice&) const = default;
};

/// Where states are.
struct StateChoice {
  int dp = 1, shard = 1;
  ShardLevel level = ShardLevel::none;
  bool reshard = true;
  int inner_shards = 0;
  int prefetch = 1;
  bool offload_optimizer = false, offload_parameters = false, offload_activations = false;
  bool offloads() const { return offload_optimizer || offload_parameters || offload_activations; }
  /// True if both offload the same.
  bool offloads_as(const StateChoice& other) const {
    return offload_optimizer == other.offload_optimizer && offload_parameters == other.offload_parameters &&
           offload_activations == other.offload_activations;
  }
  auto operator<=>(const StateChoice&) const = default;
};

/// A layout.
struct LayoutChoice {
  BlockChoice blocks = {};
  PipelineChoice pipeline = {};
  StateChoice states = {};
  auto operator<=>(const LayoutChoice&) const = default;
};

/// Smaller for simpler layouts, which go first among equally fast ones: axes in use, recompute, offload, level of sharding,
/// stages per rank.
std::vector<int> complexity(const LayoutChoice& choice);

/// How blocks are divided, in words: "tp 4, sequence parallel".
std::string block_text(const BlockChoice& blocks);
/// What a layout's memory depends on, in words: "ZeRO-1 in a pipeline, no recompute".
std::string memory_text(const LayoutChoice& choice);

}  // namespace weft
