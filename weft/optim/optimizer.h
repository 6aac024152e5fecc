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
  double lr = 0.0;                ///< learning rate
  double divisor = 1.0;           ///< gradients are divided by this
  at::Tensor gate = {};           ///< if defined, by this instead, and only if it lets them (nn/device_kernels/step_numbers.h)
  at::Tensor refused = {};        ///< with `gate`: [] bool, whether it lets none
  at::Tensor placed = {};         ///< [2] float32 on the device: lr and `number`, or undefined
  int64_t number = 0;             ///< Optimizer::next_number(), or that of the run's update: updates read it in `placed`
  bool has_float32_rate = false;  ///< lr is a float32's value; updates read it too in `placed`
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
  /// If needs_tensor_norms(): adds this rank's part of the squares of every trained tensor to `squares`, [2 x params,
  /// kSumWords] as in TensorSquares, on the model's device (nn/exact_sums.h). Called before the updates of a step.
  virtual void add_tensor_squares(const UpdateStep& /*step*/, const at::Tensor& /*squares*/) {}
  /// Receives the squares of whole tensors, summed over all ranks, for the updates of this step.
  virtual void take_tensor_squares(const UpdateStep& /*step*/, const TensorSquares& /*squares*/) {}
  /// The same for updates with a gate: `squares` as add_tensor_squares() has them, and the step's `numbers`, on the device.
  virtual void take_tensor_squares_gated(const at::Tensor& /*numbers*/, const at::Tensor& /*squares*/) {}
  /// If updates of the block need whole tensors (needs_whole_tensors()): returns this rank's part of them, [owned] in the
  /// gathered type, from its gradients divided by the step's divisor. Called once per step, before the block's update.
  virtual at::Tensor part_of_gradients(int /*block*/, const UpdateStep& /*step*/) { return {}; }
  /// Receives the parts of all shards, [numel of the block], for the block's next update. If not called, the update treats this
  /// rank's part as the whole.
  virtual void take_gradients(int /*block*/, const at::Tensor& /*whole*/) {}
  /// Updates this rank's part of one block, from its gradients divided by the step's divisor (may divide them in place).
  virtual void update(int block, const UpdateStep& step) = 0;
  /// Updates several blocks; the same bits as block by block.
  virtual void update_all(const std::vector<int>& blocks, const UpdateStep& step) {
    for (const int block : blocks) update(block, step);
  }
  /// Number of the next update of most parameters, from 1; 0: no update depends on it.
  virtual int64_t next_number() const { return 0; }
  /// Counts an update of these blocks that a device has made again.
  virtual void count_updates(const std::vector<int>& /*blocks*/) {}
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
