// FlatBlock: a block's parameters in flat memory: their positions and their owners (nn/flat/flat_model.h).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/nn/block.h"

namespace weft {

/// Groups of parameters, in the order of the flat buffers: trained with weight decay, trained without, statistics, frozen.
enum class ParamGroup { decay, no_decay, statistic, frozen };
/// Returns whether parameters of the group have gradients.
inline bool is_trained(ParamGroup group) { return group < ParamGroup::statistic; }

/// A parameter or statistic of the model; the only record of where it is stored.
struct Param {
  std::string name;                      ///< full dotted name
  std::vector<int64_t> shape;            ///< shape of the whole, as on one device
  std::optional<Split> split;            ///< this rank's part; empty: the rank has all of it
  int block = 0;                         ///< the block that owns it
  int64_t offset = 0;                    ///< start in its block's flat buffer; frozen parameters come last
  int64_t numel = 0;                     ///< elements stored there: those of the part, including padding of pieces
  ParamGroup group = ParamGroup::decay;  ///< group, contiguous in the buffer
  bool wide = false;                     ///< ParamSpec::wide, where weights are narrower than float32
  bool embedding = false;                ///< ParamSpec::embedding
  Init init;                             ///< how its initial values are drawn
  Parameter* parameter = nullptr;        ///< points into the block

  int64_t whole_numel() const;  ///< elements of the whole
  /// This rank's part of the parameter, in its shape, at `place` in memory, which has `numel` elements.
  at::Tensor own_in(const at::Tensor& place) const;
  /// Positions of the part's elements in the flattened whole.
  std::vector<SplitRun> runs() const;
};

/// A range of elements of one group, all split or all unsplit.
struct GroupRange {
  ParamGroup group = ParamGroup::decay;  ///< group of all elements
  int64_t begin = 0;                     ///< first element, in the block's flat buffer
  int64_t end = 0;                       ///< the element after the last
  bool split = false;                    ///< all parameters in it are split
};

/// Weights divided evenly over the ranks that hold its shards.
struct FlatPart {
  at::Tensor weights;       ///< [numel] in the weight type; the block's parameters are leaf views into it
  ShardRange owned;         ///< this rank's part of [0, numel)
  at::Tensor shard;         ///< [owned] in the weight type: gathered by the other ranks; undefined while offloaded
  at::Tensor master;        ///< [owned] float32: updated by the optimizer; undefined while offloaded
  at::Tensor inner;         ///< [numel / inner shards] in the weight type: kept from forward to backward
  int64_t begin = 0;        ///< start in the block's flat buffer
  int64_t numel = 0;        ///< including padding; 0 for a block that is not held
  int64_t whole_numel = 0;  ///< the same, but nonzero also for blocks that are not held

  /// Number of elements that this rank owns.
  int64_t num_owned() const { return owned.end - owned.begin; }
  /// The part of a range of the block's flat buffer that this rank owns, relative to the start of its shard; may be empty.
  GroupRange own(const GroupRange& range) const;
};

/// The gradient sum of one use of a block's weights, when each use has its own.
struct UseSum {
  int user = 0;                      ///< the block that reads the weights
  at::Tensor gradients;              ///< [numel]
  at::Tensor owned;                  ///< the [owned] part of the gradients
  bool empty = true;                 ///< the sum counts as empty
  std::vector<at::Tensor> places;    ///< views for the owner's trained parameters, in order
  std::vector<at::Tensor> gathered;  ///< their gradients, once they have arrived
};

/// A block's memory. The base FlatPart is for trained parameters and statistics.
struct FlatBlock : FlatPart {
  FlatPart frozen;                 ///< the frozen parameters
  at::Tensor gradients;            ///< [numel] in the gradient type
  at::Tensor all_gradients;        ///< [sums * numel]: the gradients, then the sums of further uses
  at::Tensor owned_gradients;      ///< [owned] in the gradient type
  at::Tensor wide_statistics;      ///< float32 values of the statistics that stay float32; undefined if weights are float32
  bool gradients_empty = true;     ///< the gradients count as empty
  int first_user = 0;              ///< the block whose use `gradients` belongs to, when uses have their own sums
  std::vector<UseSum> uses;        ///< further uses, ordered by block
  std::vector<GroupRange> groups;  ///< in order, excluding padding and frozen parameters
  std::vector<int> params;         ///< indices into FlatModel::params
  std::vector<int> statistics;     ///< indices of those in ParamGroup::statistic

  /// Both parts: trained parameters and statistics, then frozen parameters.
  std::array<FlatPart*, 2> parts() { return {this, &frozen}; }
};

/// Number of the block's trained parameters that may have no gradient in a step. The block must be unbound and may be on the
/// meta device.
int64_t num_flagged(Block& block);
/// Number of elements of the block's flat buffer that have a gradient, including padding of groups; split parameters count this
/// rank's part. The block must be unbound and may be on the meta device.
int64_t flat_numel(Block& block);
/// Number of frozen elements of the block's flat buffer, including padding. The block may be on the meta device.
int64_t frozen_numel(Block& block);

}  // namespace weft
