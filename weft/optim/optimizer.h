// Optimizer: updates the parts of a block that a rank owns, range by range, with LibTorch's fused kernels if available.
//
// Memory: the state (optimizer_options.h), and without a fused kernel, or with gradients narrower than float32, a few MB for
// the current range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/exact_sum.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/optim/optimizer_options.h"

namespace weft {

/// Inputs of an update besides gradients and state.
struct UpdateStep {
  double lr = 0.0;       ///< learning rate
  double divisor = 1.0;  ///< gradients are divided by this
};

/// Sums of squares of whole tensors. For parameter i of FlatModel::params(): index 2 i, its weights; 2 i + 1, their update.
using TensorSquares = std::vector<ExactSum>;

/// A tensor of an optimizer's state for one parameter, as in checkpoints. Either it has one element per element of the
/// parameter, and a rank holds those it owns, or it is `whole` on every rank that holds the block.
struct StateTensor {
  std::string name;            ///< "exp_avg"
  std::vector<int64_t> shape;  ///< shape of the whole
  int index = 0;               ///< index into Optimizer::state()
  int64_t begin = 0;           ///< position of the rank's first element in that state tensor
  bool whole = false;          ///< the rank has all elements
};

/// Updates what this rank owns of a FlatModel.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// If needs_tensor_norms(): adds this rank's part of the squares of every trained tensor, two sums for each of
  /// FlatModel::params(). Called before the updates of a step.
  virtual void add_tensor_squares(const UpdateStep& /*step*/, TensorSquares& /*squares*/) {}
  /// Receives the squares of whole tensors, summed over all ranks, for the updates of this step.
  virtual void take_tensor_squares(const UpdateStep& /*step*/, const TensorSquares& /*squares*/) {}
  /// If updates of the block need whole tensors (needs_whole_tensors()): returns this rank's part of them, [owned] in the
  /// gathered type, from its gradients divided by the step's divisor. Called once per step, before the block's update.
  virtual at::Tensor part_of_gradients(int /*block*/, const UpdateStep& /*step*/) { return {}; }
  /// Receives the parts of all shards, [numel of the block], for the block's next update. If not called, the update treats this
  /// rank's part as the whole.
  virtual void take_gradients(int /*block*/, const at::Tensor& /*whole*/) {}
  /// Updates this rank's part of one block, from its gradients divided by the step's divisor (may divide them in place).
  virtual void update(int block, const UpdateStep& step) = 0;
  /// The block's state: float32 tensors of state_numels() elements. Undefined ones count as zero and are created by the next
  /// update; offloading removes and restores them between updates.
  virtual std::vector<at::Tensor>& state(int block) = 0;
  /// Number of elements of each state tensor.
  virtual std::vector<int64_t> state_numels(int block) const = 0;
  /// Number of updates of each of FlatModel::params(), if has_ages(); for blocks that this rank holds.
  virtual std::vector<int64_t>& ages() = 0;
  /// State tensors of a trained parameter of a block that this rank holds.
  virtual std::vector<StateTensor> state_tensors(int param) const = 0;
};

}  // namespace weft
