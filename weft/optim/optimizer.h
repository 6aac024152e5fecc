// Optimizer: updates of what a rank owns of a block, a range of it at a time: LibTorch's fused kernels where there are such.
//
// Memory: the state (optimizer_options.h), and for those without a fused kernel, or gradients in a narrower type than float32,
// a few MB for the range at hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/exact_sum.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/optim/optimizer_options.h"

namespace weft {

/// What an update depends on beside gradients and state.
struct UpdateStep {
  double lr = 0.0;       ///< learning rate
  double divisor = 1.0;  ///< of the gradients
};

/// Sums of squares of whole tensors: the weights of parameter i of FlatModel::params() at 2 i, and what moves them at 2 i + 1.
using TensorSquares = std::vector<ExactSum>;

/// A tensor of what an optimizer keeps of one parameter, as checkpoints have it. It has all of the parameter's elements, of
/// which a rank has those that it owns of the parameter, or is `whole` on every rank that holds the block.
struct StateTensor {
  std::string name;            ///< "exp_avg"
  std::vector<int64_t> shape;  ///< of the whole
  int index = 0;               ///< which of Optimizer::state() has it
  int64_t begin = 0;           ///< where the first element that the rank has lies in that
  bool whole = false;          ///< the rank has all elements
};

/// Updates what this rank owns of a FlatModel.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Where needs_tensor_norms(): adds this rank's part of the squares of every trained tensor, of which there are two for each
  /// of FlatModel::params(). Comes before the updates of a step.
  virtual void add_tensor_squares(const UpdateStep& /*step*/, TensorSquares& /*squares*/) {}
  /// Takes the squares of whole tensors, all ranks' parts added up, for the updates of this step.
  virtual void take_tensor_squares(const UpdateStep& /*step*/, const TensorSquares& /*squares*/) {}
  /// Where updates of the block need whole tensors (needs_whole_tensors()): this rank's part of what they need, [owned] in the
  /// type that is gathered, from its gradients divided by the step's divisor. Once a step, before the block's update.
  virtual at::Tensor part_of_gradients(int /*block*/, const UpdateStep& /*step*/) { return {}; }
  /// Takes the parts of all shards, [numel of the block], for the block's next update. Without it that takes this rank's own
  /// for the whole.
  virtual void take_gradients(int /*block*/, const at::Tensor& /*whole*/) {}
  /// Updates what this rank owns of one block, from its gradients divided by the step's divisor (may rewrite them so divided).
  virtual void update(int block, const UpdateStep& step) = 0;
  /// The block's state: float32 tensors of state_numels() elements. Undefined ones count as zero and are made by the next
  /// update; offloading takes them away and puts them back between updates.
  virtual std::vector<at::Tensor>& state(int block) = 0;
  /// Elements of each of them.
  virtual std::vector<int64_t> state_numels(int block) const = 0;
  /// Updates that each of FlatModel::params() has taken, where has_ages(); of blocks that this rank holds.
  virtual std::vector<int64_t>& ages() = 0;
  /// What of it is kept of a trained parameter of a block that this rank holds.
  virtual std::vector<StateTensor> state_tensors(int param) const = 0;
};

}  // namespace weft
