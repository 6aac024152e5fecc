// Optimizer: updates over flat ranges, a piece of a block at a time: LibTorch's fused kernels where there are such.
//
// Memory: the state (optimizer_options.h), and for those without a fused kernel, or gradients in a narrower type than float32,
// a few MB for the piece at hand.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/exact_sum.h"
#include "weft/nn/flat.h"
#include "weft/optim/optimizer_options.h"

namespace weft {

/// What an update depends on beside gradients and state.
struct UpdateStep {
  double lr = 0.0;       ///< learning rate
  double divisor = 1.0;  ///< of the gradients
  int64_t number = 1;    ///< of the update in the run, from 1: AdamW's moments are young at first
};

/// Sums of squares of whole tensors: the weights of parameter i of FlatModel::params() at 2 i, and what moves them at 2 i + 1.
using TensorSquares = std::vector<ExactSum>;

/// Updates what this rank owns of a FlatModel.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Where needs_tensor_norms(): adds this rank's part of the squares of every trained tensor, of which there are two for each
  /// of FlatModel::params(). Comes before the updates of a step.
  virtual void add_tensor_squares(const UpdateStep& /*step*/, TensorSquares& /*squares*/) {}
  /// Takes the squares of whole tensors, all ranks' parts added up, for the updates of this step.
  virtual void take_tensor_squares(const UpdateStep& /*step*/, const TensorSquares& /*squares*/) {}
  /// Updates what this rank owns of one block, from its gradients divided by the step's divisor (may rewrite them so divided).
  virtual void update(int block, const UpdateStep& step) = 0;
  /// The block's state, [owned] float32 each, as state_names() has them. Undefined ones count as zero and are made by the next
  /// update; offloading takes them away and puts them back between updates.
  virtual std::vector<at::Tensor>& state(int block) = 0;
};

}  // namespace weft
