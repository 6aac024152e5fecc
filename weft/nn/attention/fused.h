// Causal attention by LibTorch's fused operator, for devices without a kernel of weft's own.
//
// LibTorch picks a kernel by type and head width (nn/attention/fused_pieces.h), its formula where there is none. It keeps,
// besides what is listed there, a seed and an offset. The meta device has no such kernels, so tensors that stand for a GPU's
// take a form of the same shapes and memory. Where LibTorch prefers cuDNN's attention, on some GPUs, that keeps the same and
// its workspace is not known.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Causal attention, which autograd sees, of q [batch, heads, tokens, head width] to k and v with as many heads or a divisor.
/// Head widths that flash attention does not take are padded with zeros, as by LibTorch.
at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace weft
