// swiglu: the gate of a feed-forward layer (Shazeer 2020, arXiv:2002.05202), y = silu(gate) up, silu(x) = x / (1 + exp(-x)). On
// the CPU in float32 and bfloat16 by a kernel of weft's own (nn/kernels/swiglu_kernels.h), elsewhere by LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// y, element by element. Keeps both for backward.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// The same, not seen by autograd.
at::Tensor swiglu_value(const at::Tensor& gate, const at::Tensor& up);

/// Where gradients go, and y once more.
struct SwigluGradients {
  at::Tensor gate;  ///< of the gate
  at::Tensor up;    ///< of what it lets through
  at::Tensor y;     ///< undefined: not wanted
};
/// Fills `into` from the gradient of y; each of it may be one of the others. Not seen by autograd.
void swiglu_gradients(const SwigluGradients& into, const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up);

}  // namespace weft
