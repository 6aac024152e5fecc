// Updater: the optimizer's interface to the engine.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/exact_sum.h"
#include "weft/nn/device_kernels/loss_scale.h"

namespace weft {

/// What updates that the device gates are judged by.
struct UpdateLimits {
  double clip = 0.0;  ///< largest norm; 0: not clipped
  double most = 0.0;  ///< largest gradient, after clipping, that keeps the optimizer's state finite
};

/// Learning rate of a step's updates and their number, from 1, as a device keeps them.
struct UpdateRate {
  float rate = 0.0f;   ///< learning rate
  int64_t number = 1;  ///< of the update
};

/// The optimizer, as the engine calls it.
class Updater {
 public:
  virtual ~Updater() = default;
  /// True if updates need the global gradient norm, when the program computes one.
  virtual bool wants_norm() const { return true; }
  /// Adds the squares of the gradients that this rank owns to the exact sum in `words` (base/exact_digits.h), [kSumWords] int64
  /// on the model's device. Called once per step, before any update.
  virtual void add_squares(const at::Tensor& words) = 0;
  /// Adds the squares of all gradients of the block as left by this rank's backward, before any sum over ranks.
  virtual void add_block_squares(int /*block*/, const at::Tensor& /*words*/) {}
  /// Returns the largest magnitude of the gradients that this rank owns, or of its changes of statistics if one is not finite,
  /// as the bits of a float32, which order like magnitudes: [1] int64 on the model's device; undefined: 0. Called once per
  /// step, before any update, if updates need no norm.
  virtual at::Tensor largest_gradient() { return {}; }
  /// Takes the largest magnitude over all ranks; updates divide gradients by `divisor`. Throws NumericError if updates would
  /// write non-finite values.
  virtual void accept_largest(int64_t /*bits*/, double /*divisor*/) {}
  /// Called before accept() if a rank's changes of statistics are not finite.
  virtual void refuse_statistics() {}
  /// Takes the global gradient norm. Returns false to skip this step's updates (fp16, if a gradient was not finite).
  virtual bool accept(double norm) = 0;
  /// Number of additional sums, over whole tensors, that updates need.
  virtual int64_t num_tensor_squares() const { return 0; }
  /// Adds this rank's part to the sums over whole tensors. Called after accept(), with the divisor of update().
  /// `squares`: [num_tensor_squares(), kSumWords] int64, on the model's device.
  virtual void add_tensor_squares(double /*divisor*/, const at::Tensor& /*squares*/) {}
  /// Takes the sums over whole tensors, summed over all ranks.
  virtual void take_tensor_squares(double /*divisor*/, const std::vector<ExactSum>& /*squares*/) {}
  /// add_tensor_squares() for gated updates.
  virtual void add_tensor_squares_gated(const at::Tensor& /*gate*/, const at::Tensor& /*rate*/, const at::Tensor& /*squares*/) {
  }
  /// take_tensor_squares() for gated updates, whose step has these `numbers`; `squares` stay on the device.
  virtual void take_tensor_squares_gated(const at::Tensor& /*numbers*/, const at::Tensor& /*squares*/) {}
  /// Returns this rank's part, [owned], of the whole gradients that the block's update needs. Called once per step, before that
  /// update, with its divisor.
  virtual at::Tensor part_of_gradients(int /*block*/, double /*divisor*/) { return {}; }
  /// The same for a gated update.
  virtual at::Tensor part_of_gradients_gated(int /*block*/, const at::Tensor& /*gate*/, const at::Tensor& /*rate*/) {
    return {};
  }
  /// Takes the concatenated parts of all ranks, filled by the time of the update.
  virtual void take_gradients(int /*block*/, const at::Tensor& /*whole*/) {}
  /// Updates this rank's part of the block from its gradients in the flat buffers, divided by `divisor`.
  virtual void update(int block, double divisor) = 0;
  /// Updates several blocks, in as few launches as a device needs.
  virtual void update_all(const std::vector<int>& blocks, double divisor) {
    for (const int block : blocks) update(block, divisor);
  }
  /// If updates can be gated on a device, what they are judged by there instead of by accept() and accept_largest(): the host
  /// need not know a step's numbers before its updates.
  virtual std::optional<UpdateLimits> limits() const { return std::nullopt; }
  /// Updates several blocks, unless the gate refuses it (nn/device_kernels/step_numbers.h), which also holds the divisor.
  /// `rate`, [2] float32 on the device, holds what rate() returned at the beginning of the step.
  virtual void update_gated(const std::vector<int>& /*blocks*/, const at::Tensor& /*gate*/, const at::Tensor& /*rate*/) {}
  /// Of the step that has begun; with limits().
  virtual UpdateRate rate() const { return {}; }
  /// A captured step has been replayed, with its updates of these blocks.
  virtual void count_updates(const std::vector<int>& /*blocks*/) {}
  /// The gate has refused the updates of the last `steps` steps.
  virtual void forget_updates(int /*steps*/) {}
  /// The loss scale that a device takes over if updates are gated; empty: losses are not scaled.
  virtual std::optional<LossScale> scale_for_device() const { return std::nullopt; }
  /// The host has read the oldest step of those that the gate judged: it made its updates, or skipped them.
  virtual void settle_update(bool /*skipped*/) {}
  /// Called after the block's update, statistics included, so that an average of the weights can include them.
  virtual void average(int /*block*/) {}
  /// The same after a gated update.
  virtual void average_gated(int /*block*/, const at::Tensor& /*gate*/, const at::Tensor& /*rate*/) {}
  /// Optimizer tensors of a block, for offloading.
  virtual std::vector<at::Tensor>& state(int block) = 0;
  /// Elements of each tensor of state(), float32.
  virtual std::vector<int64_t> state_numels(int /*block*/) const { return {}; }
  /// Factor that losses are multiplied by before backward and gradients divided by afterwards: fp16's loss scale.
  virtual double loss_scale() const { return 1.0; }
};

}  // namespace weft
