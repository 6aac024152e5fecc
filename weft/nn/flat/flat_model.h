// FlatModel: a model whose parameters are views into flat buffers, whole or divided over ranks.
//
// Each block has one flat weight buffer and one flat gradient buffer. Inside a block the order is: parameters with weight
// decay, those without, then statistics (BatchNorm's running mean and variance). Each group is padded to 64 elements, and the
// block to 64 per shard; there is no other padding, and no shard edge cuts a vector. A statistic's place in the gradient buffer
// holds the summed change of its micro-batches, so it is reduced with the gradients and needs no collective of its own. Frozen
// parameters follow as a separate part, padded and divided in the same way. It has only weights: the gradient buffer ends
// before it.
//
// A rank owns one shard of each block: the `master` weights its optimizer works on (float32) and their gradients. Without
// sharding, the shard is the whole block, in place. Whole weights and gradients of several blocks may share a buffer
// (program/buffers.h decides): the views of a block's parameters never move, and their memory is filled before it is read.
//
// Buffers that are not statistics (BufferSpec) stay separate tensors, whole and in their own type on every rank that holds
// their block.
//
// Memory: as the options say; for one rank and float32, 4 bytes per parameter for weights and 4 for gradients, plus padding.
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

/// Replaces a block's values with rank 0's. `values` are its weights, [numel] float32, or buffers, [bytes] uint8; `what` names
/// them: "weights of block 3", "buffers of block 3".
using ShareValues = std::function<void(const at::Tensor& values, bool held, const std::string& what)>;

/// A model's parameters in flat memory.
class FlatModel {
 public:
  /// Lays the model out and binds it. Parameters keep the values they were given; those that initialise() will draw are zero.
  /// Throws InputError when two parameters or buffers have the same name, or a parameter is not float32 or shares memory with
  /// another parameter or a buffer (naming both).
  FlatModel(Model model, const FlatOptions& options);

  /// Replaces given values, including those of buffers, with rank 0's by calling `share`. Call this once, if
  /// FlatOptions::shares_given. Every rank calls `share` for the same blocks in the same order, held or not, as rank 0 may hold
  /// other blocks than those it provides. Until then the tensors of the given values are kept.
  void share_given(const ShareValues& share);

  /// Draws the elements that this rank owns of every parameter of the block with an Init rule, from (seed, name, element).
  void initialise(int block, uint64_t seed);
  /// Copies the block's trained master weights to its shard, in the weight type, after they changed.
  void copy_master_to_shard(int block);
  /// The same for one of the block's parts.
  static void copy_master_to_shard(FlatPart& part);

  /// This rank's inner shard of the part's whole weights.
  at::Tensor inner_part(const FlatPart& part) const;

  /// Makes the gradients of a block count as empty: the next backward overwrites instead of adding.
  void clear_gradients(int block);
  /// Call after a backward that added to the block's gradients. Ensures that each gradient is at its place in the flat buffer
  /// (zero for unused parameters), and records in used() which parameters have one. Adds `statistics_change`, [statistics of
  /// the block] or undefined, to the statistics' change.
  void settle_gradients(int block, const at::Tensor& statistics_change);

  /// Redirects the gradients of weights that `user` reads from other blocks into the sums of that use, if they have any; a
  /// second call redirects them back (nn/flat/flat_uses.h).
  void swap_use_gradients(int user);
  /// Adds up the sums of the block's uses, in order; afterwards this rank's owned gradients are the total.
  void join_uses(int block);

  /// The block's statistics as forward reads and changes them, [statistics of the block]: in place in the weights, or the wide
  /// copies, set from the weights. The tensor has its own version counter.
  at::Tensor statistics(int block);
  /// Moves the block's statistics by the mean of the changes its `micro_batches` micro-batches made, unless `refused`, [] bool
  /// on the device, if it is defined.
  void apply_statistics(int block, int64_t micro_batches, const at::Tensor& refused = {});

  const Model& model() const { return model_; }           ///< its blocks are bound if this rank holds them
  int num_blocks() const { return model_.num_blocks(); }  ///< number of blocks in the whole model
  /// Returns whether this rank has the block.
  bool holds(int block) const { return options_.held.empty() || options_.held[block]; }
  /// Returns whether this rank has the block and updates its part of it.
  bool owns(int block) const { return holds(block) && !options_.is_copy; }
  /// Returns whether this rank has the block as a copy for tied weights, not as its first holder.
  bool is_tied_copy(int block) const { return !options_.tied_copy.empty() && options_.tied_copy[block]; }
  /// The trained parameters of a block.
  std::vector<Parameter*> trained(int block) const;
  Block& block(int index) const { return *model_.blocks[index].block; }  ///< for running it
  FlatBlock& flat(int index) { return flat_[index]; }                    ///< the block's memory
  const std::vector<Param>& params() const { return params_; }           ///< parameters of the whole model, block by block
  /// Parameters that may have no gradient in a step: the trained ones of blocks without Block::always_uses_all().
  const std::vector<int>& flagged() const { return flagged_; }
  /// By parameter: whether it has a gradient in this step, here or, once ranks have exchanged this, on any rank. A parameter
  /// without one is not updated, not even by decay or momentum. Always true for parameters that are not exchanged.
  std::vector<char>& used() { return used_; }
  const std::vector<ModelBuffer>& buffers() const { return buffers_; }  ///< buffers of the whole model, block by block
  /// The gradients of blocks [first, last) as one range; if blocks share buffers, only a single block may be requested.
  at::Tensor gradients(int first, int last) const;
  int64_t gradients_numel() const;  ///< elements of the gradients of all held blocks
  /// Offset of the block's gradients if all held blocks' lay end to end, which they do unless blocks share buffers.
  int64_t gradient_offset(int block) const { return offsets_[block]; }
  /// The block's statistics within its weights: [begin, end), empty for a block without any.
  GroupRange statistics_range(int block) const;
  const FlatOptions& options() const { return options_; }  ///< options of the layout
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
  void release_values(int block);
  Param describe(const ParamSpec& spec, int block) const;
  FlatPart& part_of(const Param& param);
  void make_shard(FlatPart& part);

  Model model_;
  FlatOptions options_;
  std::vector<Param> params_;
  std::vector<FlatBlock> flat_;
  std::map<int, std::vector<std::pair<int, int>>> uses_of_;  ///< by user: blocks it reads, and the index of the use in each
  std::vector<int64_t> offsets_;                             ///< by block: start of its gradients in gradients_
  std::map<int, at::Tensor> given_;                          ///< values given, by parameter, until taken
  at::Tensor gradients_;                                     ///< undefined if blocks share buffers
  std::vector<ModelBuffer> buffers_;
  std::vector<int> flagged_;
  std::vector<char> used_;
};

}  // namespace weft
