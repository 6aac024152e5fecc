// Optimizers over flat ranges: one call of a LibTorch fused kernel a group and block.
//
// Memory: AdamW keeps 8 bytes a parameter that the rank owns (two moments), SGD 4 with momentum and none without. Gradients in
// a narrower type than float32 are widened a piece at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "weft/nn/flat.h"

namespace weft {

/// Decoupled weight decay (Loshchilov & Hutter 2019). Groups without decay (biases, norms) take none.
struct AdamW {
  double lr = 3e-4;            ///< learning rate, where no schedule tells it
  double beta1 = 0.9;          ///< what the mean of the gradients keeps of itself in a step; in [0, 1)
  double beta2 = 0.999;        ///< the same for the mean of their squares
  double eps = 1e-8;           ///< added to the root of that mean; above 0
  double weight_decay = 0.01;  ///< times the learning rate: the share of itself that a weight loses in a step
};

/// PyTorch's SGD: v = momentum v + g + weight_decay w; w -= lr v (Nesterov: lr (g + momentum v)). Groups without decay take
/// none.
struct Sgd {
  double lr = 0.1;            ///< learning rate, where no schedule tells it
  double momentum = 0.9;      ///< in [0, 1); 0 keeps no velocity v
  double weight_decay = 0.0;  ///< times a weight: added to its gradient
  bool nesterov = false;      ///< needs momentum
};

/// An optimizer by its options.
using OptimizerOptions = std::variant<AdamW, Sgd>;

/// What an update depends on beside gradients and state.
struct UpdateStep {
  double lr = 0.0;       ///< learning rate
  double divisor = 1.0;  ///< of the gradients
  int64_t number = 1;    ///< of the update in the run, from 1: AdamW's moments are young at first
};

/// Updates what this rank owns of a FlatModel.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Updates what this rank owns of one block, from its gradients divided by the step's divisor (may rewrite them so divided).
  virtual void update(int block, const UpdateStep& step) = 0;
  /// The block's state, [owned] float32 each: AdamW's two moments, SGD's velocity. Undefined ones count as zero and are made by
  /// the next update; offloading takes them away and puts them back between updates.
  virtual std::vector<at::Tensor>& state(int block) = 0;
};

/// The optimizer of `model`, which must outlive it. Throws InputError for a value out of its range.
std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options);

/// The tensors of state that the optimizer keeps for a block, in their order, by PyTorch's names: "exp_avg" and "exp_avg_sq" of
/// AdamW, "momentum_buffer" of SGD with momentum.
std::vector<std::string> state_names(const OptimizerOptions& options);
/// How many those are.
int num_states(const OptimizerOptions& options);

}  // namespace weft
