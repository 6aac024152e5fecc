// FlatModel: a model whose parameters are views into flat buffers, whole or divided over ranks.
//
// Each block has one flat weight buffer and one flat gradient buffer. Inside a block the order is: parameters with weight
// decay, those without, then statistics (BatchNorm's running mean and variance), each group padded to 64 elements, and the
// block to 64 for every shard: that is all the padding there is, and no shard edge cuts a vector. A statistic's place in the
// gradient buffer holds the summed change of its micro-batches, so it is reduced with the gradients and costs no collective of
// its own. Frozen parameters follow as a part of their own, padded and divided in the same way, which has weights and nothing
// else: the gradient buffer ends before it.
//
// A rank owns one shard of each block: the `master` weights its optimizer works on (float32) and their gradients. Without
// sharding that is the whole block, in place. Whole weights and gradients of several blocks may share a buffer
// (program/buffers.h says which): the views of a block's parameters never move, what lies under them is filled before it is
// read.
//
// Buffers that are no statistics (BufferSpec) stay tensors of their own, whole and in their own type on every rank that holds
// their block.
//
// Memory: as the options say; for one rank and float32, 4 bytes a parameter for weights and 4 for gradients, plus padding.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/nn/flat/flat_block.h"
#include "weft/nn/flat/flat_options.h"
#include "weft/nn/model.h"
#include "weft/nn/model_buffers.h"

namespace weft {

/// Replaces a block's values by those that count (rank 0's): `what` is "weights of block 3", [numel] float32, or "buffers of
/// block 3", [bytes] uint8.
using ShareValues = std::function<void(const at::Tensor& values, bool held, const std::string& what)>;

/// A model's parameters in flat memory.
class FlatModel {
 public:
  /// Lays the model out and binds it; values are the given ones where a parameter has some, zero where initialise() is to draw
  /// them. Throws InputError when two parameters or buffers have the same name, or a parameter shares memory with another one
  /// or a buffer (naming both), or is not float32.
  FlatModel(Model model, const FlatOptions& options);

  /// Replaces the values that were given, of buffers too, by those that `share` makes of them; once, where
  /// FlatOptions::shares_given. It calls
  /// `share` on every rank for the same blocks in the same order, held or not, as rank 0 may hold others than those it gives.
  /// Until then the tensors that the values were given in stay.
  void share_given(const ShareValues& share);

  /// Draws what this rank owns of every parameter of the block that has a rule, from (seed, name, element).
  void initialise(int block, uint64_t seed);
  /// Makes the block's shard in the weight type anew, after what is trained of its master weights changed.
  void copy_master_to_shard(int block);
  /// The same of one of the block's parts.
  static void copy_master_to_shard(FlatPart& part);

  /// This rank's inner part of the part's whole weights.
  at::Tensor inner_part(const FlatPart& part) const;

  /// Makes the gradients of a block count as empty: the next backward overwrites instead of adding.
  void clear_gradients(int block);
  /// Sees to it, after a backward that added to the block's gradients, that every one is in its place in the flat buffer
  /// (unused parameters: zero), and notes in used() which have one. `statistics_change`, [its statistics] or undefined, is
  /// added to theirs.
  void settle_gradients(int block, const at::Tensor& statistics_change);

  /// Has the gradients of weights that `user` reads of other blocks arrive in the sums of that use, where these have such; a
  /// second call has them arrive where they did before (nn/flat/flat_uses.h).
  void turn_uses(int user);
  /// Adds the sums of the block's uses up, in order: what this rank owns of its gradients holds the whole then.
  void join_uses(int block);

  /// The block's statistics as forward reads and changes them, [its statistics]: in their place in the weights, or the wide
  /// ones, set from there. With a version counter of their own.
  at::Tensor statistics(int block);
  /// Moves the block's statistics by the mean of the changes its `micro_batches` micro-batches made.
  void apply_statistics(int block, int64_t micro_batches);

  const Model& model() const { return model_; }           ///< with blocks that are bound where this rank holds them
  int num_blocks() const { return model_.num_blocks(); }  ///< of the whole model
  /// Whether this rank has the block.
  bool holds(int block) const { return options_.held.empty() || options_.held[block]; }
  /// Whether this rank has the block, and updates what it has of it.
  bool owns(int block) const { return holds(block) && !options_.is_copy; }
  /// Whether this rank has the block beside its first holder (tied weights).
  bool is_tied_copy(int block) const { return !options_.tied_copy.empty() && options_.tied_copy[block]; }
  /// The parameters of a block that are trained.
  std::vector<Parameter*> trained(int block) const;
  Block& block(int index) const { return *model_.blocks[index].block; }  ///< to be run
  FlatBlock& flat(int index) { return flat_[index]; }                    ///< the block's memory
  const std::vector<Param>& params() const { return params_; }           ///< of the whole model, block by block
  /// Parameters that a step may leave without a gradient: the trained ones of blocks that do not always use all.
  const std::vector<int>& told() const { return told_; }
  /// By parameter: whether it has had a gradient in the step at hand, here or, once ranks have told one another, on any rank.
  /// One without is not updated: neither decay nor momentum moves it. Always true of those that are not told of.
  std::vector<char>& used() { return used_; }
  const std::vector<ModelBuffer>& buffers() const { return buffers_; }  ///< of the whole model, block by block
  /// The gradients of blocks [first, last) as one range; those that share buffers only one at a time.
  at::Tensor gradients(int first, int last) const;
  int64_t gradients_numel() const;  ///< elements of the gradients of all held blocks
  /// Where the block's gradients begin among those of all held blocks, side by side (as they lie unless they share buffers).
  int64_t gradient_offset(int block) const { return offsets_[block]; }
  /// The block's statistics within its weights: [begin, end), empty for a block without.
  GroupRange statistics_range(int block) const;
  const FlatOptions& options() const { return options_; }  ///< as the model was laid out
  int64_t num_parameters() const;                          ///< trained elements of the whole model, without padding

 private:
  void lay_out();
  void lay_out(int block);
  void allocate();
  void allocate_weights();
  void allocate_gradients(int64_t total);
  void allocate_shards();
  void allocate_inner();
  void bind(int block);
  int64_t num_sums(int block) const { return options_.gradient_sums.empty() ? 1 : options_.gradient_sums[block]; }
  void take_uses(int block, const at::Tensor& owned);
  void bind_uses(int block);
  void keep_given(int block);
  void take_given(int block, const ShareValues& share);
  void share_buffers(int block, const ShareValues& share);
  void place_buffers();
  at::Tensor make(FlatBuffer buffer, int64_t numel, const std::string& what) const;
  std::string weights_of(int block) const { return "weights of " + model_.blocks[block].name; }
  void let_go(int block);
  Param describe(const ParamSpec& spec, int block) const;
  FlatPart& part_of(const Param& param);
  void make_shard(FlatPart& part);

  Model model_;
  FlatOptions options_;
  std::vector<Param> params_;
  std::vector<FlatBlock> flat_;
  std::map<int, std::vector<std::pair<int, int>>> uses_of_;  ///< by user: blocks, and which of their uses it is
  std::vector<int64_t> offsets_;                             ///< of each block's gradients in gradients_
  std::map<int, at::Tensor> given_;                          ///< by param, until they are taken
  at::Tensor gradients_;                                     ///< undefined where blocks share buffers
  std::vector<ModelBuffer> buffers_;
  std::vector<int> told_;
  std::vector<char> used_;
};

}  // namespace weft
