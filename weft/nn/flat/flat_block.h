// FlatBlock: a block's parameters in flat memory: which lies where, and whose part is whose (nn/flat/flat_model.h).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/nn/block.h"

namespace weft {

/// What is done with a parameter, in the order of the flat buffers: trained with weight decay, or without; a statistic, or
/// frozen.
enum class ParamGroup { decay, no_decay, statistic, frozen };
/// Whether parameters of the group have gradients.
inline bool is_trained(ParamGroup group) { return group < ParamGroup::statistic; }

/// A parameter or statistic of the model, and where it lies: the one truth on that.
struct Param {
  std::string name;                      ///< full dotted name
  std::vector<int64_t> shape;            ///< of the whole, as one device has it
  std::optional<Split> split;            ///< this rank's part of it; none: all
  int block = 0;                         ///< that owns it
  int64_t offset = 0;                    ///< in its block's flat buffer; frozen ones come last
  int64_t numel = 0;                     ///< elements there: of the part, with what pads its pieces
  ParamGroup group = ParamGroup::decay;  ///< which lie side by side
  bool wide = false;                     ///< ParamSpec::wide, where weights are narrower than float32
  bool embedding = false;                ///< ParamSpec::embedding
  Init init;                             ///< how its first values are drawn
  Parameter* parameter = nullptr;        ///< in the block

  int64_t whole_numel() const;  ///< elements of the whole
  /// What this rank has of it, in its shape, in its place in memory, which has `numel` elements.
  at::Tensor own_in(const at::Tensor& place) const;
  /// Where the part's elements lie in the whole, flattened.
  std::vector<SplitRun> runs() const;
};

/// A range of elements of one group, all of them split or none.
struct GroupRange {
  ParamGroup group = ParamGroup::decay;  ///< of all of them
  int64_t begin = 0;                     ///< in the block's flat buffer
  int64_t end = 0;                       ///< the element after the last
  bool split = false;                    ///< of parameters that are split
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

  /// Elements that this rank owns.
  int64_t num_owned() const { return owned.end - owned.begin; }
  /// The part that this rank owns of a range of the block's flat buffer, counted from the begin of its shard; may be empty.
  GroupRange own(const GroupRange& range) const;
};

/// The sum of the gradients that come of one use of a block's weights, where each use has its own.
struct UseSum {
  int user = 0;                      ///< the block that reads the weights
  at::Tensor gradients;              ///< [numel]
  at::Tensor owned;                  ///< [owned] of it
  bool empty = true;                 ///< the sum counts as empty
  std::vector<at::Tensor> places;    ///< of the owner's trained parameters, in their order
  std::vector<at::Tensor> gathered;  ///< their gradients, where some have arrived
};

/// A block's memory: as a FlatPart itself, that of what is trained and of statistics.
struct FlatBlock : FlatPart {
  FlatPart frozen;                 ///< that of what is frozen
  at::Tensor gradients;            ///< [numel] in the gradient type
  at::Tensor all_gradients;        ///< [sums * numel]: these, then the sums of further uses
  at::Tensor owned_gradients;      ///< [owned] in the gradient type
  at::Tensor wide_statistics;      ///< float32 values of the statistics that stay so; undefined where weights are float32
  bool gradients_empty = true;     ///< the gradients count as empty
  int first_user = 0;              ///< the block whose use the gradients are of, where uses have sums of their own
  std::vector<UseSum> uses;        ///< further ones, in order of their blocks
  std::vector<GroupRange> groups;  ///< in order, without padding and without what is frozen
  std::vector<int> params;         ///< indices into FlatModel::params
  std::vector<int> statistics;     ///< those of group statistic

  /// All memory of weights: what is trained and statistics, then what is frozen.
  std::array<FlatPart*, 2> parts() { return {this, &frozen}; }
};

/// The block's trained parameters that a step may leave without a gradient. The block is not bound yet, and may be on the meta
/// device.
int64_t num_told(Block& block);
/// Elements of the block's flat buffer that have a place for a gradient, padding of groups included: of this rank's parts of
/// what is split. The block is not bound yet, and may be on the meta device.
int64_t flat_numel(Block& block);
/// Elements of the block's flat buffer that are frozen, padding included. The block may be on the meta device.
int64_t frozen_numel(Block& block);

}  // namespace weft
