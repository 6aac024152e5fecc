// gelu: GELU by its tanh formula (Hendrycks & Gimpel 2016, arXiv:1606.08415), y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715
// x^3))). Float32 and bfloat16 on the CPU use weft's own kernel (nn/kernels/gelu_kernels.h), other devices one launch
// (nn/device_kernels/layer_kernels.h), others LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Returns y like x, of any shape. Keeps only x for backward.
at::Tensor gelu(const at::Tensor& x);

/// The same, not seen by autograd.
at::Tensor gelu_value(const at::Tensor& x);

/// Writes the gradient of x, given the gradient of y, to `dx`, which may be `dy` itself; all like x. Not seen by autograd.
void gelu_gradient(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& x);
/// The same, also writing y again; y may be x.
void gelu_gradient_and_value(const at::Tensor& dx, const at::Tensor& y, const at::Tensor& dy, const at::Tensor& x);

}  // namespace weft
