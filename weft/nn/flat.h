// FlatModel: a model whose parameters are views into flat buffers.
//
// Each block has one flat weight buffer; all blocks' gradients lie in one buffer, block after block, so that a bucket is a
// range of it. Inside a block the order is: parameters with weight decay, those without, then statistics (BatchNorm's running
// mean and variance); each block is padded to 64 elements, so that shard edges never cut a vector. A statistic's place in the
// gradient buffer holds the summed change of its micro-batches, so it is reduced with the gradients and costs no collective of
// its own.
//
// Memory: 4 bytes a parameter for weights and 4 for gradients, plus padding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/nn/model.h"

namespace weft {

inline constexpr int64_t kAlignElements = 64;

enum class ParamGroup { decay, no_decay, statistic };

/// The one truth on who lies where.
struct Param {
  std::string name;  ///< full dotted name
  std::vector<int64_t> shape;
  int block = 0;
  int64_t offset = 0;  ///< in its block's flat buffer
  int64_t numel = 0;
  ParamGroup group = ParamGroup::decay;
  Init init;
  Parameter* parameter = nullptr;
};

struct GroupRange {
  ParamGroup group = ParamGroup::decay;
  int64_t begin = 0;  ///< in the block's flat buffer
  int64_t end = 0;
};

struct FlatBlock {
  at::Tensor weights;    ///< [numel], leaf views of it are the block's parameters
  at::Tensor gradients;  ///< [numel], a range of the model's gradient buffer
  int64_t offset = 0;    ///< of that range
  int64_t numel = 0;     ///< padding included
  std::vector<GroupRange> groups;
  std::vector<int> params;      ///< indices into FlatModel::params
  std::vector<int> statistics;  ///< those of group statistic
};

/// Elements of the block's flat buffer, padding included; the block may be on the meta device.
int64_t flat_numel(Block& block);

class FlatModel {
 public:
  /// Makes a flat, zero-filled buffer: plain memory, or Group::allocate for buffers that collectives use in place.
  using Allocate = std::function<at::Tensor(int64_t numel, const std::string& what)>;

  /// Lays out and binds; values are those of init(), or the given ones. Throws InputError when two parameters have the same
  /// name or share memory (naming both), or a parameter is not a floating-point tensor.
  FlatModel(Model model, const Allocate& allocate, at::Device device = at::kCPU);

  /// Draws every parameter that has a rule from (seed, name, element).
  void initialise(uint64_t seed);

  /// The gradients of a block count as empty: the next backward overwrites instead of adding.
  void clear_gradients(int block);
  /// After a backward of the block: every gradient is in its place in the flat buffer (unused parameters: zero).
  void settle_gradients(int block);

  /// The block's statistics move by the mean of the changes its `micro_batches` micro-batches made.
  void apply_statistics(int block, int64_t micro_batches);

  const Model& model() const { return model_; }
  int num_blocks() const { return model_.num_blocks(); }
  Block& block(int index) const { return *model_.blocks[index].block; }
  FlatBlock& flat(int index) { return flat_[index]; }
  const std::vector<Param>& params() const { return params_; }
  /// The gradients of blocks [first, last) as one range.
  at::Tensor gradients(int first, int last) const;
  int64_t num_parameters() const;  ///< trained elements, without padding

 private:
  void lay_out();
  void bind(const Allocate& allocate, at::Device device);

  Model model_;
  std::vector<Param> params_;
  std::vector<FlatBlock> flat_;
  at::Tensor gradients_;
};

}  // namespace weft
