// Updater: what the optimizer is to the engine.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/base/exact_sum.h"

namespace weft {

/// The optimizer, as the engine calls it.
class Updater {
 public:
  virtual ~Updater() = default;
  /// Whether updates need the global norm of the gradients, where the program has a norm at all.
  virtual bool wants_norm() const { return true; }
  /// Adds the squares of the gradients that this rank owns to `sum`. Called once a step, before any update.
  virtual void add_squares(ExactSum& sum) = 0;
  /// Adds the squares of all gradients of the block as this rank's backward has left them, before any sum over ranks.
  virtual void add_block_squares(int /*block*/, ExactSum& /*sum*/) {}
  /// The largest magnitude of the gradients that this rank owns, or of its changes of statistics where one is not finite, as
  /// the bits of a float32, which order as magnitudes do; asked for where updates need no norm, once a step, before any update.
  virtual int64_t largest_gradient() { return 0; }
  /// Takes the largest of all ranks, for gradients that updates divide by `divisor`. Throws NumericError where updates would
  /// write what is not finite.
  virtual void accept_largest(int64_t /*bits*/, double /*divisor*/) {}
  /// Takes the global norm of the gradients. False: this step's updates are left out (fp16, when a gradient was not finite).
  virtual bool accept(double norm) = 0;
  /// How many sums of whole tensors updates need, beside that.
  virtual int64_t num_tensor_squares() const { return 0; }
  /// Adds what this rank owns to them. Called after accept(), with the divisor of update().
  virtual void add_tensor_squares(double /*divisor*/, std::vector<ExactSum>& /*squares*/) {}
  /// Takes them, all ranks' parts added up.
  virtual void take_tensor_squares(double /*divisor*/, const std::vector<ExactSum>& /*squares*/) {}
  /// What this rank has, [owned], of what the block's update needs of the gradients of all shards. Called once a step, before
  /// that update, with its divisor.
  virtual at::Tensor part_of_gradients(int /*block*/, double /*divisor*/) { return {}; }
  /// Takes what all of them have, side by side: filled by the time of the update.
  virtual void take_gradients(int /*block*/, const at::Tensor& /*whole*/) {}
  /// Updates what this rank owns of the block by its gradients in the flat buffers, divided by `divisor`.
  virtual void update(int block, double divisor) = 0;
  /// The block is updated, its statistics too: an average of the weights takes them in.
  virtual void average(int /*block*/) {}
  /// The tensors that the optimizer keeps for a block, for offloading.
  virtual std::vector<at::Tensor>& state(int block) = 0;
  /// Elements of each of them, float32.
  virtual std::vector<int64_t> state_numels(int /*block*/) const { return {}; }
  /// The factor that losses are multiplied by before backward, and gradients divided by again: fp16's loss scale.
  virtual double loss_scale() const { return 1.0; }
};

}  // namespace weft
