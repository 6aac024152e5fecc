// rms_norm: root mean square normalisation (Zhang & Sennrich 2019, arXiv:1910.07467).
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// x [..., width] divided by the root of its mean square over the last dimension (plus `eps`), then times weight [width]. A
/// narrow x is normalised in float32 and rounded before it meets the weight, as transformers' LlamaRMSNorm does. Keeps x and
/// one float32 a row for backward.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace weft
