// Layers that weft's own models are made of. Each holds its parameters on the meta device until a FlatModel binds them, and
// tells the rule their first values are drawn by.
//
// Their weight gradients are written straight into the flat gradient buffer (no temporary, no zeroing, no copy): the first
// backward of a slot overwrites, later ones add. A layer that is used several times in one forward adds as well.
//
// A layer that is split runs with the Context alone; called without it, it throws InputError.
#pragma once

#include <string>
#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/functional/activation.h"
#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// y = x W^T + b; x [..., in], W [out, in]. Drawn as PyTorch's Linear: uniform in +-1/sqrt(in), unless told.
struct Linear {
  Linear(int64_t in, int64_t out, bool with_bias = true);              ///< maps rows of `in` elements to rows of `out`
  at::Tensor operator()(const at::Tensor& x);                          ///< y [..., out]
  at::Tensor operator()(const LayerInput& x, const Context& context);  ///< the same, split as nn/layers/linear.h says
  /// Adds what Block::parameters() tells of the layer: `name`.weight and, where there is one, `name`.bias.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);
  /// Weights from N(0, stddev^2), bias zero: GPT-2's rule.
  Linear& normal(double stddev);
  LinearParameters parameters() { return {&weight, bias.value.defined() ? &bias : nullptr}; }  ///< of this layer

  Parameter weight;  ///< [out, in]
  Parameter bias;    ///< [out]; undefined: none
  Init weight_init;  ///< the weight's first values
  Init bias_init;    ///< the bias's first values
};

/// Normalises over the last dimension, then y = x weight + bias; x [..., width]. Drawn as ones and zeros.
struct LayerNorm {
  explicit LayerNorm(int64_t width, double eps = 1e-5);                ///< for rows of `width` elements
  at::Tensor operator()(const at::Tensor& x);                          ///< y [..., width]
  at::Tensor operator()(const at::Tensor& x, const Context& context);  ///< the same, of this rank's tokens (Context)
  /// Adds what Block::parameters() tells of the layer: `name`.weight and `name`.bias.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);
  NormParameters parameters() { return {&weight, &bias, eps}; }  ///< of this layer

  Parameter weight;  ///< [width]
  Parameter bias;    ///< [width]
  double eps;        ///< added to the variance
};

/// Divides by the root mean square over the last dimension (nn/functional/norms.h), then y = x weight; x [..., width]. Drawn as
/// ones.
struct RmsNorm {
  explicit RmsNorm(int64_t width, double eps = 1e-5);                  ///< for rows of `width` elements
  at::Tensor operator()(const at::Tensor& x, const Context& context);  ///< as below, of this rank's tokens (Context)
  at::Tensor operator()(const at::Tensor& x);                          ///< y [..., width]
  /// Adds what Block::parameters() tells of the layer: `name`.weight.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);
  NormParameters parameters() { return {&weight, nullptr, eps}; }  ///< of this layer

  Parameter weight;  ///< [width]
  double eps;        ///< added to the mean square
};

/// A row of its weight for each id. Drawn from N(0, stddev^2).
struct Embedding {
  Embedding(int64_t entries, int64_t width, double stddev);              ///< for ids in [0, entries)
  at::Tensor operator()(const at::Tensor& ids);                          ///< ids [...] int64 to [..., width]
  at::Tensor operator()(const at::Tensor& ids, const Context& context);  ///< the same, split as nn/layers/embedding.h says
  /// Adds what Block::parameters() tells of the layer: `name`.weight.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight;  ///< [entries, width]
  double stddev;     ///< of the weight's first values
};

/// 2-d, padding kernel/2; x [n, in, h, w]. Drawn as PyTorch's Conv2d, unless told.
struct Conv2d {
  /// With filters of `kernel` x `kernel` pixels, at every pixel or, with a stride of 2, every second.
  Conv2d(int64_t in, int64_t out, int64_t kernel, bool with_bias = true, int64_t stride = 1);
  /// y [n, out, h, w] for an odd kernel, h + 1 and w + 1 for an even one; about half of them with a stride of 2.
  at::Tensor operator()(const at::Tensor& x);
  at::Tensor operator()(const at::Tensor& x, const Context& context);  ///< the same, split as nn/images/convolution.h says
  /// Adds what Block::parameters() tells of the layer: `name`.weight and, where there is one, `name`.bias.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  /// Weights from N(0, 2 / (out kernel^2)), which keeps the size of gradients behind a ReLU (He et al. 2015, arXiv:1502.01852,
  /// "fan out"); for a layer without bias.
  Conv2d& kaiming_normal();

  Parameter weight;  ///< [out, in, kernel, kernel]
  Parameter bias;    ///< [out]; undefined: none
  Init init;         ///< the first values of both
  int64_t stride;    ///< 1 or 2
};

/// Normalises each channel over the micro-batch, or those of several ranks (nn/images/batch_norm.h); keeps running statistics
/// for evaluation (nn/flat/flat_model.h says how they are combined).
struct BatchNorm2d {
  explicit BatchNorm2d(int64_t channels, double momentum = 0.1, double eps = 1e-5);  ///< for x [n, channels, h, w]
  at::Tensor operator()(const at::Tensor& x, const Context& context);                ///< y like x
  /// relu(y + shortcut), as batch_norm_relu() makes it.
  at::Tensor relu(const at::Tensor& x, const Context& context, const at::Tensor& shortcut = {});
  /// Adds what Block::parameters() tells of the layer: `name`.weight, .bias, .running_mean and .running_var.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight;        ///< [channels], ones at first
  Parameter bias;          ///< [channels], zeros at first
  Parameter running_mean;  ///< [channels], a statistic, zeros at first
  Parameter running_var;   ///< [channels], a statistic, ones at first
  double momentum;         ///< share of a micro-batch's statistics in the running ones
  double eps;              ///< added to the variance
};

/// Normalises groups of channels of each sample (Wu & He 2018, arXiv:1803.08494): without statistics, so that neither batch nor
/// ranks matter to it.
struct GroupNorm {
  /// For x [n, channels, h, w]. Throws InputError unless `groups` divides the channels.
  GroupNorm(int64_t channels, int64_t groups, double eps = 1e-5);
  at::Tensor operator()(const at::Tensor& x);  ///< y like x
  /// Adds what Block::parameters() tells of the layer: `name`.weight and `name`.bias.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight;  ///< [channels], ones at first
  Parameter bias;    ///< [channels], zeros at first
  int64_t groups;    ///< of as many channels each
  double eps;        ///< added to the variance
};

/// An empty parameter of that shape on the meta device.
Parameter meta_parameter(const std::vector<int64_t>& shape);

}  // namespace weft
