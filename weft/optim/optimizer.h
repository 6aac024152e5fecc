// Optimizers over flat ranges: one call of a LibTorch fused kernel a group and block.
//
// Memory: AdamW keeps 8 bytes a parameter that the rank owns (two moments), SGD 4 with momentum and none without. Gradients in
// a narrower type than float32 are widened a piece at a time.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "weft/nn/flat.h"

namespace weft {

/// Decoupled weight decay (Loshchilov & Hutter 2019). Groups without decay (biases, norms) take none.
struct AdamW {
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

/// PyTorch's SGD: v = momentum v + g + weight_decay w; w -= lr v (Nesterov: lr (g + momentum v)).
struct Sgd {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0.0;
  bool nesterov = false;
};

using OptimizerOptions = std::variant<AdamW, Sgd>;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// w <- w - ... on what this rank owns of one block, from its gradients divided by `divisor` (may rewrite them so divided).
  virtual void update(int block, double lr, double divisor) = 0;
  /// The block's state, [owned] float32 each: AdamW's two moments, SGD's velocity. Undefined ones count as zero and are made by
  /// the next update; offloading takes them away and puts them back between updates.
  virtual std::vector<at::Tensor>& state(int block) = 0;
};

/// Throws InputError for a value out of its range.
std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options);

/// Tensors of state that the optimizer keeps a block.
int num_states(const OptimizerOptions& options);

}  // namespace weft
