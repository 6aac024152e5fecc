// norms: layer norm (Ba et al. 2016, arXiv:1607.06450), y = (x - mean) / root(variance + eps) weight + bias, and RMS norm
// (Zhang & Sennrich 2019, arXiv:1910.07467), y = x / root(mean square + eps) weight, over the last dimension.
//
// RMS norm rounds what it has scaled to x's type before it multiplies by the weight, as the Llama models that others publish
// do. On the CPU in float32 and bfloat16 by kernels of weft's own (nn/kernels/norm_kernels.h), elsewhere by LibTorch's
// operators, in float32 at least.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Which norm, and what it scales by.
struct Norm {
  at::Tensor weight;     ///< [width]
  at::Tensor bias = {};  ///< [width]: layer norm; undefined: RMS norm
  double eps = 1e-5;     ///< added to the variance, or the mean square

  bool centres() const { return bias.defined(); }  ///< whether it is layer norm
};

/// y of x [..., width]. Keeps x and two numbers a row for backward, one for RMS norm.
at::Tensor normalise(const at::Tensor& x, const Norm& norm);

/// What forward gives. Not seen by autograd.
struct Normalised {
  at::Tensor sum;    ///< x, or x and what was added
  at::Tensor y;      ///< its norm
  at::Tensor mean;   ///< of each row, float32 at least; undefined for RMS norm
  at::Tensor scale;  ///< of each row: 1 / root(variance + eps)
};
/// Of x + added, of x alone where `added` is undefined; both alike, [..., width].
Normalised normalise_sum(const at::Tensor& x, const at::Tensor& added, const Norm& norm);
/// y once more, the same bits. Not seen by autograd.
at::Tensor normalise_again(const Normalised& kept, const Norm& norm);

/// What comes back.
struct NormGradients {
  at::Tensor x;       ///< like x: the norm's, and `residual`
  at::Tensor weight;  ///< [width]
  at::Tensor bias;    ///< [width]; undefined for RMS norm
};
/// From the gradient dy of y and, unless undefined, that of the sum by the way past the norm. Not seen by autograd.
NormGradients norm_gradients(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept, const Norm& norm);

}  // namespace weft
