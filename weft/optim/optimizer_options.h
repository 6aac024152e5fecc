// OptimizerOptions: the choice of optimizer and its settings. Unless noted, defaults are those of PyTorch's optimizer of the
// same name. Optimizers that need whole tensors are in whole_tensor_options.h.
//
// Parameters without decay (biases, norms) take neither weight decay nor a trust ratio.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "weft/optim/custom_optimizer.h"
#include "weft/optim/whole_tensor_options.h"

namespace weft {

/// Decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101). State: 8 bytes per parameter.
struct AdamW {
  double lr = 3e-4;            ///< learning rate, if no schedule sets it
  double beta1 = 0.9;          ///< decay of the running mean of gradients; in [0, 1)
  double beta2 = 0.999;        ///< the same for the running mean of their squares
  double eps = 1e-8;           ///< added to the root of that mean; above 0
  double weight_decay = 0.01;  ///< a step multiplies weights by 1 - lr weight_decay
};

/// PyTorch's SGD: v = momentum v + g + weight_decay w; w -= lr v (Nesterov: lr (g + momentum v)). State: 4 bytes per parameter
/// with momentum, 0 without.
struct Sgd {
  double lr = 0.1;            ///< learning rate, if no schedule sets it
  double momentum = 0.9;      ///< in [0, 1); 0 keeps no velocity v
  double weight_decay = 0.0;  ///< weight_decay w is added to the gradient
  bool nesterov = false;      ///< needs momentum
};

/// Layer-wise adaptive rates for SGD (You et al. 2017, arXiv:1708.03888), as in timm: for each whole tensor, with d = g +
/// weight_decay w: v = momentum v + r d; w -= lr v (Nesterov: lr (r d + momentum v)), r = trust |w| / (|g| + weight_decay |w| +
/// eps), 1 where |w| or |g| is 0. State: 4 bytes per parameter with momentum.
struct Lars {
  double lr = 0.1;            ///< learning rate, if no schedule sets it
  double momentum = 0.9;      ///< in [0, 1)
  double weight_decay = 0.0;  ///< weight_decay w is added to the gradient
  bool nesterov = false;      ///< needs momentum
  double trust = 0.001;       ///< the paper's eta, above 0
  double eps = 1e-8;          ///< above 0
  double trust_limit = 0.0;   ///< largest r; 0: no limit
};

/// Layer-wise adaptive moments (You et al. 2020, arXiv:1904.00962), with AdamW's moments and their correction: for each whole
/// tensor, with u = m / (sqrt(v) + eps) + weight_decay w: w -= lr r u, r = |w| / |u|, 1 where either is 0. State: 8 bytes per
/// parameter.
struct Lamb {
  double lr = 1e-3;            ///< learning rate, if no schedule sets it
  double beta1 = 0.9;          ///< in [0, 1)
  double beta2 = 0.999;        ///< in [0, 1)
  double eps = 1e-6;           ///< above 0
  double weight_decay = 0.01;  ///< weight_decay w is part of u
  double trust_limit = 0.0;    ///< largest r; 0: no limit
};

/// The sign of a momentum (Chen et al. 2023, arXiv:2302.06675): w -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay w); m =
/// beta2 m + (1 - beta2) g. State: 4 bytes per parameter.
struct Lion {
  double lr = 1e-4;           ///< learning rate, if no schedule sets it: a third to a tenth of AdamW's
  double beta1 = 0.9;         ///< in [0, 1)
  double beta2 = 0.99;        ///< in [0, 1)
  double weight_decay = 0.0;  ///< a step multiplies weights by 1 - lr weight_decay
};

/// PyTorch's RMSprop: s = alpha s + (1 - alpha) g^2, g with weight_decay w added; v = momentum v + g / (sqrt(s) + eps); w -= lr
/// v. State: 4 bytes per parameter, 8 with momentum.
struct RmsProp {
  double lr = 0.01;           ///< learning rate, if no schedule sets it
  double alpha = 0.99;        ///< in [0, 1)
  double eps = 1e-8;          ///< above 0
  double weight_decay = 0.0;  ///< weight_decay w is added to the gradient
  double momentum = 0.0;      ///< in [0, 1)
};

/// PyTorch's Adagrad (Duchi et al. 2011): s = s + g^2, g with weight_decay w added; w -= lr g / (sqrt(s) + eps). State: 4 bytes
/// per parameter.
struct Adagrad {
  double lr = 0.01;           ///< learning rate, if no schedule sets it
  double eps = 1e-10;         ///< above 0
  double weight_decay = 0.0;  ///< weight_decay w is added to the gradient
};

/// An optimizer, selected by its options.
using OptimizerOptions = std::variant<AdamW, Sgd, Lars, Lamb, Lion, RmsProp, Adagrad, Muon, Adafactor, CustomOptimizer>;

/// Throws InputError for a value out of its range.
void check_optimizer(const OptimizerOptions& options);

/// Name and settings in words: "AdamW, betas 0.9 and 0.999, eps 1e-08, weight decay 0.01". Optimizers that differ in more than
/// the rate have different texts.
std::string optimizer_text(const OptimizerOptions& options);

/// State tensors of a block, in order, with PyTorch's names: "exp_avg" and "exp_avg_sq" for AdamW.
std::vector<std::string> state_names(const OptimizerOptions& options);
/// Number of state tensors.
int num_states(const OptimizerOptions& options);

/// Returns whether an update depends on the parameter's number of previous updates: AdamW, LAMB, Muon, Adafactor, custom ones.
bool has_ages(const OptimizerOptions& options);
/// Returns whether an update needs norms of whole tensors: LARS, LAMB, Adafactor.
bool needs_tensor_norms(const OptimizerOptions& options);
/// Returns whether a device can gate its updates, which then do without the host (UpdateStep::gate): all except custom ones
/// that do not declare it (ElementWiseUpdate::takes_gate()), which are given what has been judged.
bool takes_gate(const OptimizerOptions& options);
/// Returns whether its state has squares of gradients: all except SGD, LARS and Lion.
bool squares_gradients(const OptimizerOptions& options);
/// Returns whether an update needs whole tensors, gathered from the shards: Muon, Adafactor.
bool needs_whole_tensors(const OptimizerOptions& options);

}  // namespace weft
