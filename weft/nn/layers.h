// Layers that weft's own models are made of. Each holds its parameters on the meta device until a FlatModel binds them, and
// tells the rule their first values are drawn by.
//
// Their weight gradients are written straight into the flat gradient buffer (no temporary, no zeroing, no copy): the first
// backward of a slot overwrites, later ones add. A layer that is used several times in one forward adds as well.
#pragma once

#include <string>
#include <vector>

#include "weft/nn/block.h"

namespace weft {

/// y = x W^T + b; x [..., in], W [out, in]. Drawn as PyTorch's Linear: uniform in +-1/sqrt(in), unless told.
struct Linear {
  Linear(int64_t in, int64_t out, bool with_bias = true);
  at::Tensor operator()(const at::Tensor& x);
  void describe(std::vector<ParamSpec>& specs, const std::string& name);
  /// Weights from N(0, stddev^2), bias zero: GPT-2's rule.
  Linear& normal(double stddev);

  Parameter weight, bias;
  Init weight_init, bias_init;
};

/// Over the last dimension.
struct LayerNorm {
  explicit LayerNorm(int64_t width, double eps = 1e-5);
  at::Tensor operator()(const at::Tensor& x);
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight, bias;
  double eps;
};

/// ids [...] int64 -> [..., width], from N(0, stddev^2).
struct Embedding {
  Embedding(int64_t entries, int64_t width, double stddev);
  at::Tensor operator()(const at::Tensor& ids);
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight;
  double stddev;
};

/// 2-d, stride 1, padding kernel/2; x [n, in, h, w]. Drawn as PyTorch's Conv2d.
struct Conv2d {
  Conv2d(int64_t in, int64_t out, int64_t kernel, bool with_bias = true);
  at::Tensor operator()(const at::Tensor& x);
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight, bias;
  Init init;
};

/// Normalises each channel over the micro-batch; keeps running statistics for evaluation (nn/flat.h says how they are
/// combined).
struct BatchNorm2d {
  explicit BatchNorm2d(int64_t channels, double momentum = 0.1, double eps = 1e-5);
  at::Tensor operator()(const at::Tensor& x, bool training);
  void describe(std::vector<ParamSpec>& specs, const std::string& name);

  Parameter weight, bias, running_mean, running_var;
  double momentum, eps;
};

/// An empty parameter of that shape on the meta device.
Parameter meta_parameter(const std::vector<int64_t>& shape);

}  // namespace weft
