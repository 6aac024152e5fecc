// swiglu: the gate of a feed-forward layer (Shazeer 2020, arXiv:2002.05202), y = silu(gate) up, silu(x) = x / (1 + exp(-x)).
// Float32 and bfloat16 on the CPU use weft's own kernel (nn/kernels/swiglu_kernels.h), other devices one launch
// (nn/device_kernels/layer_kernels.h), others LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Returns y, element by element. Keeps both inputs for backward.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// The same, not seen by autograd.
at::Tensor swiglu_value(const at::Tensor& gate, const at::Tensor& up);

/// Destinations of gradients and of y.
struct SwigluGradients {
  at::Tensor gate;  ///< gradient of gate
  at::Tensor up;    ///< gradient of up
  at::Tensor y;     ///< output y; undefined: not computed
};
/// Fills `into` from the gradient of y; each tensor of `into` may be one of the inputs. Not seen by autograd.
void swiglu_gradients(const SwigluGradients& into, const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up);

}  // namespace weft
