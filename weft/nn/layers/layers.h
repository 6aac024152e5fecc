// Layers of weft's own models. Each holds its parameters on the meta device until a FlatModel binds them, and states how their
// initial values are drawn.
//
// Their weight gradients are written straight into the flat gradient buffer (no temporary, no zeroing, no copy): the first
// backward of a slot overwrites, later ones add. A layer used several times in one forward also adds.
//
// A split layer needs the Context; called without it, it throws InputError.
#pragma once

#include <string>
#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/functional/activation.h"
#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// y = x W^T + b; x [..., in], W [out, in]. Initialised like PyTorch's Linear, uniform in +-1/sqrt(in), unless changed.
struct Linear {
  Linear(int64_t in, int64_t out, bool with_bias = true);              ///< maps rows of `in` elements to rows of `out`
  at::Tensor operator()(const at::Tensor& x);                          ///< y [..., out]
  at::Tensor operator()(const LayerInput& x, const Context& context);  ///< the same, split as in nn/layers/linear.h
  /// Adds the layer to Block::parameters(): `name`.weight and, if it has one, `name`.bias.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);
  /// Weights from N(0, stddev^2), bias zero: GPT-2's rule.
  Linear& normal(double stddev);
  LinearParameters parameters() { return {&weight, bias.value.defined() ? &bias : nullptr}; }  ///< of this layer

  Parameter weight;  ///< [out, in]
  Parameter bias;    ///< [out]; undefined: no bias
  Init weight_init;  ///< how the weight's initial values are drawn
  Init bias_init;    ///< how the bias's initial values are drawn
};

/// Normalises over the last dimension, then y = x weight + bias; x [..., width]. Initialised to ones and zeros.
struct LayerNorm {
  explicit LayerNorm(int64_t width, double eps = 1e-5);                ///< for rows of `width` elements
  at::Tensor operator()(const at::Tensor& x);                          ///< y [..., width]
  at::Tensor operator()(const at::Tensor& x, const Context& context);  ///< the same for this rank's tokens (Context)
  /// Adds the layer to Block::parameters(): `name`.weight and `name`.bias.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);
  NormParameters parameters() { return {&weight, &bias, eps}; }  ///< of this layer

  Parameter weight;  ///< [width]
  Parameter bias;    ///< [width]
  double eps;        ///< added to the variance
};

/// Divides by the root mean square over the last dimension (nn/functional/norms.h), then y = x weight; x [..., width].
/// Initialised to ones.
struct RmsNorm {
  explicit RmsNorm(int64_t width, double eps = 1e-5);                  ///< for rows of `width` elements
  at::Tensor operator()(const at::Tensor& x, const Context& context);  ///< as below, for this rank's tokens (Context)
  at::Tensor operator()(const at::Tensor& x);                          ///< y [..., width]
  /// Adds the layer to Block::parameters(): `name`.weight.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);
  NormParameters parameters() { return {&weight, nullptr, eps}; }  ///< of this layer

  Parameter weight;  ///< [width]
  double eps;        ///< added to the mean square
};

/// Looks up a row of its weight for each id. Initialised from N(0, stddev^2).
struct Embedding {
  Embedding(int64_t entries, int64_t width, double stddev);              ///< for ids in [0, entries)
  at::Tensor operator()(const at::Tensor& ids);                          ///< ids [...] int64 to [..., width]
  at::Tensor operator()(const at::Tensor& ids, const Context& context);  ///< the same, split as in nn/layers/embedding.h
  /// Adds the layer to Block::parameters(): `name`.weight.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight;  ///< [entries, width]
  double stddev;     ///< standard deviation of the initial weight
};

/// 2-d convolution with padding kernel/2; x [n, in, h, w]. Initialised like PyTorch's Conv2d, unless changed.
struct Conv2d {
  /// Has filters of `kernel` x `kernel` pixels, applied at every pixel or, with a stride of 2, at every second one.
  Conv2d(int64_t in, int64_t out, int64_t kernel, bool with_bias = true, int64_t stride = 1);
  /// y [n, out, h, w] for an odd kernel, h + 1 and w + 1 for an even one; about half of that with a stride of 2.
  at::Tensor operator()(const at::Tensor& x);
  at::Tensor operator()(const at::Tensor& x, const Context& context);  ///< the same, split as in nn/images/convolution.h
  /// Adds the layer to Block::parameters(): `name`.weight and, if it has one, `name`.bias.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  /// Weights from N(0, 2 / (out kernel^2)), which keeps gradients' magnitude through a ReLU (He et al. 2015, arXiv:1502.01852,
  /// "fan out"); for a layer without bias.
  Conv2d& kaiming_normal();

  Parameter weight;  ///< [out, in, kernel, kernel]
  Parameter bias;    ///< [out]; undefined: no bias
  Init init;         ///< how both parameters' initial values are drawn
  int64_t stride;    ///< 1 or 2
};

/// Normalises each channel over the micro-batch, or over several ranks' (nn/images/batch_norm.h); keeps running statistics for
/// evaluation, combined as in nn/flat/flat_model.h.
struct BatchNorm2d {
  explicit BatchNorm2d(int64_t channels, double momentum = 0.1, double eps = 1e-5);  ///< for x [n, channels, h, w]
  at::Tensor operator()(const at::Tensor& x, const Context& context);                ///< y like x
  /// Returns relu(y + shortcut), as batch_norm_relu() does.
  at::Tensor relu(const at::Tensor& x, const Context& context, const at::Tensor& shortcut = {});
  /// Adds the layer to Block::parameters(): `name`.weight, .bias, .running_mean and .running_var.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight;        ///< [channels], initially ones
  Parameter bias;          ///< [channels], initially zeros
  Parameter running_mean;  ///< [channels], a statistic, initially zeros
  Parameter running_var;   ///< [channels], a statistic, initially ones
  double momentum;         ///< share of a micro-batch's statistics in the running ones
  double eps;              ///< added to the variance
};

/// Normalises groups of channels of each sample (Wu & He 2018, arXiv:1803.08494). It has no running statistics, and results do
/// not depend on batch or ranks.
struct GroupNorm {
  /// Takes x [n, channels, h, w]. Throws InputError unless `groups` divides the channels.
  GroupNorm(int64_t channels, int64_t groups, double eps = 1e-5);
  at::Tensor operator()(const at::Tensor& x);  ///< y like x
  /// Adds the layer to Block::parameters(): `name`.weight and `name`.bias.
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight;  ///< [channels], initially ones
  Parameter bias;    ///< [channels], initially zeros
  int64_t groups;    ///< number of groups, all of equal size
  double eps;        ///< added to the variance
};

/// An empty parameter of that shape on the meta device.
Parameter meta_parameter(const std::vector<int64_t>& shape);

}  // namespace weft
