// convolution: whose weight gradient goes straight to where it is kept, and can be put off.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// Convolves x [n, in, h, w] with weight.value [out, in, k, k] at stride 1 and padding k/2, and adds bias.value [out] where
/// given: [n, out, h, w]. Gradients as linear() (nn/linear.h). Heeds Parameter::deferred.
at::Tensor convolution(const at::Tensor& x, Parameter& weight, Parameter* bias);

}  // namespace weft
