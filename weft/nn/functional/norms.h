// norms: layer norm (Ba et al. 2016, arXiv:1607.06450), y = (x - mean) / root(variance + eps) weight + bias, and RMS norm
// (Zhang & Sennrich 2019, arXiv:1910.07467), y = x / root(mean square + eps) weight, over the last dimension.
//
// RMS norm rounds the scaled value to x's type before it multiplies by the weight, as published Llama implementations do.
// Float32 and bfloat16 on the CPU use weft's own kernels (nn/kernels/norm_kernels.h), other types there LibTorch's operators in
// at least float32. On other devices each function is one launch (nn/device_kernels/layer_kernels.h).
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Kind of norm, and its parameters.
struct Norm {
  at::Tensor weight;     ///< [width]
  at::Tensor bias = {};  ///< [width] for layer norm; undefined: RMS norm
  double eps = 1e-5;     ///< added to the variance, or the mean square

  bool centres() const { return bias.defined(); }  ///< returns whether it is layer norm
};

/// Returns y for x [..., width]. Keeps x and two numbers per row for backward, one for RMS norm.
at::Tensor normalise(const at::Tensor& x, const Norm& norm);

/// Result of forward. Not seen by autograd.
struct Normalised {
  at::Tensor sum;    ///< x, or x + added
  at::Tensor y;      ///< its norm
  at::Tensor mean;   ///< of each row, at least float32; undefined for RMS norm
  at::Tensor scale;  ///< of each row: 1 / root(variance + eps)
};
/// Normalises x + added, or x alone if `added` is undefined; both [..., width].
Normalised normalise_sum(const at::Tensor& x, const at::Tensor& added, const Norm& norm);
/// Returns y again, with the same bits. Not seen by autograd.
at::Tensor normalise_again(const Normalised& kept, const Norm& norm);

/// Result of backward.
struct NormGradients {
  at::Tensor x;       ///< like x: the norm's gradient plus `residual`
  at::Tensor weight;  ///< [width]
  at::Tensor bias;    ///< [width]; undefined for RMS norm
  at::Tensor y = {};  ///< of norm_gradients_and_output() alone
};
/// Takes dy, the gradient of y, and `residual`, the sum's gradient that bypasses the norm, or undefined. Not seen by autograd.
NormGradients norm_gradients(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept, const Norm& norm);
/// Returns y too, as normalise_again() does.
NormGradients norm_gradients_and_output(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept,
                                        const Norm& norm);
/// Returns whether the kernel for rows like `sum` makes both in one pass over them.
bool gives_norm_again(const at::Tensor& sum);

}  // namespace weft
