// Attention on the CPU by weft's own kernel (nn/kernels/attention_kernels.h), in float32 and bfloat16. Shapes
// as in nn/attention/partial.h; strides are free, but elements of a head lie side by side.
//
// Cost in memory: float32 copies of one kv head's keys and values a thread, two of them forward and five backward, and no
// scores.
#pragma once

#include "weft/nn/attention/partial_types.h"

namespace weft {

/// Whether the kernel takes such tensors; on the meta device, whether it would.
bool fits_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// attend(); the output lies in memory as [batch, queries, heads, head width].
AttentionPiece attend_in_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask);

/// attend_backward(), into tensors that are there, views of larger ones perhaps.
void attend_backward_in_tiles(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionPiece& whole, AttentionMask mask, const AttentionGradients& into);

}  // namespace weft
