// Updater: the optimizer's interface to the engine.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/base/exact_sum.h"

namespace weft {

/// The optimizer, as the engine calls it.
class Updater {
 public:
  virtual ~Updater() = default;
  /// True if updates need the global gradient norm, when the program computes one.
  virtual bool wants_norm() const { return true; }
  /// Adds the squares of the gradients that this rank owns to `sum`. Called once per step, before any update.
  virtual void add_squares(ExactSum& sum) = 0;
  /// Adds the squares of all gradients of the block as left by this rank's backward, before any sum over ranks.
  virtual void add_block_squares(int /*block*/, ExactSum& /*sum*/) {}
  /// Returns the largest magnitude of the gradients that this rank owns, or of its changes of statistics if one is not finite,
  /// as the bits of a float32, which order like magnitudes. Called once per step, before any update, if updates need no norm.
  virtual int64_t largest_gradient() { return 0; }
  /// Takes the largest magnitude over all ranks; updates divide gradients by `divisor`. Throws NumericError if updates would
  /// write non-finite values.
  virtual void accept_largest(int64_t /*bits*/, double /*divisor*/) {}
  /// Takes the global gradient norm. Returns false to skip this step's updates (fp16, if a gradient was not finite).
  virtual bool accept(double norm) = 0;
  /// Number of additional sums, over whole tensors, that updates need.
  virtual int64_t num_tensor_squares() const { return 0; }
  /// Adds this rank's part to the sums over whole tensors. Called after accept(), with the divisor of update().
  virtual void add_tensor_squares(double /*divisor*/, std::vector<ExactSum>& /*squares*/) {}
  /// Takes the sums over whole tensors, summed over all ranks.
  virtual void take_tensor_squares(double /*divisor*/, const std::vector<ExactSum>& /*squares*/) {}
  /// Returns this rank's part, [owned], of the whole gradients that the block's update needs. Called once per step, before that
  /// update, with its divisor.
  virtual at::Tensor part_of_gradients(int /*block*/, double /*divisor*/) { return {}; }
  /// Takes the concatenated parts of all ranks, filled by the time of the update.
  virtual void take_gradients(int /*block*/, const at::Tensor& /*whole*/) {}
  /// Updates this rank's part of the block from its gradients in the flat buffers, divided by `divisor`.
  virtual void update(int block, double divisor) = 0;
  /// Called after the block's update, statistics included, so that an average of the weights can include them.
  virtual void average(int /*block*/) {}
  /// Optimizer tensors of a block, for offloading.
  virtual std::vector<at::Tensor>& state(int block) = 0;
  /// Elements of each tensor of state(), float32.
  virtual std::vector<int64_t> state_numels(int /*block*/) const { return {}; }
  /// Factor that losses are multiplied by before backward and gradients divided by afterwards: fp16's loss scale.
  virtual double loss_scale() const { return 1.0; }
};

}  // namespace weft
