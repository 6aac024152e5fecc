// Attention on the CPU by weft's own kernel (nn/kernels/attention_kernels.h), in float32 and bfloat16. Shapes as in
// nn/attention/partial.h; any strides, but the elements of a head must be contiguous.
//
// Memory per thread: float32 copies of one kv head's keys and values, two forward and five backward; no scores.
#pragma once

#include "weft/nn/attention/partial_types.h"

namespace weft {

/// Returns true if the kernel supports these tensors; on the meta device, as if they were on the CPU.
bool fits_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// Like attend(); the output's memory layout is [batch, queries, heads, head width].
AttentionPiece attend_in_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask);

/// Like attend_backward(), but writes to existing tensors, possibly views of larger ones.
void attend_backward_in_tiles(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionPiece& whole, AttentionMask mask, const AttentionGradients& into);

}  // namespace weft
