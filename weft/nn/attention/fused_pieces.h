// Pieces of attention (nn/attention/partial.h) by LibTorch's fused kernels, which keep no scores. Forward returns the log-sums
// that backward takes, so backward can take those of the attention over all keys.
//
// The kernel by device, type and head width:
//
// | device | bfloat16, float16: head widths up to 256 | float32: head widths divisible by 4 |
// |---|---|---|
// | CUDA | flash attention; before compute capability 8.0 as float32 | memory-efficient attention |
// | another accelerator | its fused attention | the same |
// | CPU | flash attention for the CPU | the same |
//
// Flash attention groups query heads itself; memory-efficient attention takes kv heads repeated.
//
// | | keeps, besides queries, keys, values, output | float32 scratch of backward |
// |---|---|---|
// | flash | log-sums [batch, heads, queries] | as queries, by steps of 128 x 32 (wide heads: 64); a number each |
// | memory-efficient | log-sums, queries by steps of 32 | as the output; a number per query |
//
// Flash attention with fewer kv heads than heads also makes the gradients of repeated keys and values, in their type.
//
// Meta tensors that stand for a GPU's (nn/kernels/kernel_table.h) take a form of the same shapes and memory. Head widths that
// flash attention does not take are padded with zeros, as by LibTorch.
//
// Sources: LibTorch 2.11, aten/src/ATen/native/transformers/cuda: attention.cu, attention_backward.cu,
// flash_attn/flash_api.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/attention/partial_types.h"

namespace weft {

/// Returns whether there is such a kernel for queries q [batch, heads, queries, head width] of this type.
bool has_fused_kernel(const at::Tensor& q);

/// Returns whether the kernel for q reads kv heads that several query heads share; others take them repeated.
bool groups_heads(const at::Tensor& q);

/// The head width that the kernel takes: that of x, rounded up for flash attention.
int64_t fused_head_width(const at::Tensor& x);

/// Attends to these keys only. Shapes, not empty, as in nn/attention/partial.h, whose attend() checks them.
AttentionPiece attend_fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask);

/// Contribution of these keys to the gradients; arguments and result as of attend_backward() in nn/attention/partial.h.
AttentionGradients attend_backward_fused(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                         const AttentionPiece& whole, AttentionMask mask);

}  // namespace weft
