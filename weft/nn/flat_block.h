// FlatBlock: a block's parameters in flat memory: which lies where, and whose part is whose (nn/flat.h).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/nn/block.h"

namespace weft {

inline constexpr int64_t kAlignElements = 64;

enum class ParamGroup { decay, no_decay, statistic, frozen };
/// Has a gradient.
inline bool is_trained(ParamGroup group) { return group < ParamGroup::statistic; }

/// The one truth on who lies where.
struct Param {
  std::string name;  ///< full dotted name
  std::vector<int64_t> shape;
  int block = 0;
  int64_t offset = 0;  ///< in its block's flat buffer; frozen ones come last
  int64_t numel = 0;
  ParamGroup group = ParamGroup::decay;
  bool wide = false;  ///< ParamSpec::wide
  Init init;
  Parameter* parameter = nullptr;
};

struct GroupRange {
  ParamGroup group = ParamGroup::decay;
  int64_t begin = 0;  ///< in the block's flat buffer
  int64_t end = 0;
};

/// Weights that the shards' ranks divide evenly among them.
struct FlatPart {
  at::Tensor weights;       ///< [numel] in the weight type; leaf views of it are the block's parameters
  ShardRange owned;         ///< this rank's part of [0, numel)
  at::Tensor shard;         ///< [owned] in the weight type: what the other ranks gather; undefined while offloaded
  at::Tensor master;        ///< [owned] float32: what the optimizer works on; undefined while offloaded
  at::Tensor inner;         ///< [numel / inner shards] in the weight type: kept from forward to backward
  int64_t begin = 0;        ///< in the block's flat buffer
  int64_t numel = 0;        ///< padding included; 0 for a block that is not held
  int64_t whole_numel = 0;  ///< the same, but for blocks that are not held

  int64_t num_owned() const { return owned.end - owned.begin; }
  /// What this rank owns of a range of the block's flat buffer, counted from the begin of its shard; may be empty.
  GroupRange own(const GroupRange& range) const;
};

/// What is trained, and statistics.
struct FlatBlock : FlatPart {
  FlatPart frozen;
  at::Tensor gradients;         ///< [numel] in the gradient type
  at::Tensor owned_gradients;   ///< [owned] in the gradient type
  at::Tensor wide_statistics;   ///< float32 values of the statistics that stay so; undefined where weights are float32
  bool gradients_empty = true;  ///< the gradients count as empty
  std::vector<GroupRange> groups;
  std::vector<int> params;      ///< indices into FlatModel::params
  std::vector<int> statistics;  ///< those of group statistic

  std::array<FlatPart*, 2> parts() { return {this, &frozen}; }
};

/// Elements of the block's flat buffer that have a place for a gradient, and of those that have none; padding included. The
/// block may be on the meta device.
int64_t flat_numel(Block& block);
int64_t frozen_numel(Block& block);

}  // namespace weft
