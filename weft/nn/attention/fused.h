// Causal attention by LibTorch's fused operator, for devices without a kernel of weft's own.
//
// LibTorch picks a kernel by type and head width: flash attention for bfloat16 and float16 (head width up to 256),
// memory-efficient attention for float32 (a head width divisible by 4), its formula otherwise. The meta device has no such
// kernels, so tensors that stand for a GPU's (nn/kernels/kernel_table.h) take a form of the same shapes and memory:
//
// | | keeps, besides queries, keys, values and output | scratch of backward, in float32 |
// |---|---|---|
// | flash | log-sums [batch, heads, queries]; seed and offset | queries, rounded up to 128 x 32 (above a width of 128: 64); a
// number per query | | memory-efficient | log-sums, queries rounded up to 32; seed and offset | a tensor like the output; a
// number per query |
//
// Sources: LibTorch 2.11, aten/src/ATen/native/transformers/cuda: attention_backward.cu, flash_attn/flash_api.cpp. Where
// LibTorch prefers cuDNN's attention, on some GPUs, that keeps the same and its workspace is not known.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Causal attention of q, k and v [batch, heads, tokens, head width], which autograd sees. Head widths that flash attention
/// does not take are padded with zeros, as by LibTorch.
at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace weft
