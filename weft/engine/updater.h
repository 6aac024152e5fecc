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
  /// Adds the squares of the gradients that this rank owns to `sum`. Called once a step, before any update, where the program
  /// asks for the norm.
  virtual void add_squares(ExactSum& sum) = 0;
  /// Takes the global norm of the gradients. False: this step's updates are left out (fp16, when a gradient was not finite).
  virtual bool accept(double norm) = 0;
  /// Updates what this rank owns of the block by its gradients in the flat buffers, divided by `divisor`.
  virtual void update(int block, double divisor) = 0;
  /// The tensors that the optimizer keeps for a block, for offloading.
  virtual std::vector<at::Tensor>& state(int block) = 0;
  /// The factor that losses are multiplied by before backward, and gradients divided by again: fp16's loss scale.
  virtual double loss_scale() const { return 1.0; }
};

}  // namespace weft
