// Updater: what the optimizer is to the engine.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/base/exact_sum.h"

namespace weft {

/// What the optimizer does for the engine. Gradients in the flat buffers are to be divided by `divisor`.
class Updater {
 public:
  virtual ~Updater() = default;
  /// Adds the squares of the gradients that this rank owns. Called once a step, before any update, where the program asks for
  /// the norm.
  virtual void add_squares(ExactSum& sum) = 0;
  /// The global norm. False: this step's updates are left out (fp16, when a gradient was not finite).
  virtual bool accept(double norm) = 0;
  virtual void update(int block, double divisor) = 0;
  /// What the optimizer keeps for a block, for offloading.
  virtual std::vector<at::Tensor>& state(int block) = 0;
  /// What losses are multiplied by before backward, and gradients divided by again: fp16's loss scale.
  virtual double loss_scale() const { return 1.0; }
};

}  // namespace weft
