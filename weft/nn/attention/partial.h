// Attention of some queries to some of their keys, and the merging of such pieces into the whole.
//
// A piece's output is normalised over its own keys. Together with the logarithm of its sum of exponentials it can be merged
// with the pieces over other keys, in any order (Rabe & Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135).
// Not seen by autograd.
//
// Shapes: q [batch, heads, queries, head width], k and v [batch, kv heads, keys, head width], where kv heads divide heads and
// query head h reads kv head h / (heads / kv heads). Scores are scaled by 1/sqrt(head width).
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/attention/partial_types.h"

namespace weft {

/// The kernel that computes a piece.
enum class AttentionKernel {
  flash,   ///< weft's own on the CPU (nn/attention/tiled.h), in float32 and bfloat16; in other types LibTorch's there
  fused,   ///< LibTorch's for the device (nn/attention/fused_pieces.h); like flash it keeps no scores
  formula  ///< plain operations; two matrices of [batch, heads, queries, keys] in float32 at once, three in backward
};

/// The kernel for queries q (nn/kernels/kernel_table.h).
AttentionKernel attention_kernel(const at::Tensor& q);

/// Attends to these keys only.
AttentionPiece attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask,
                      AttentionKernel kernel);

/// Contribution of these keys to the gradients. `whole` is the result of attention over all keys for these queries, and `dout`
/// the gradient of its output; a piece's own output is not needed (Liu et al. 2023, arXiv:2310.01889, appendix).
AttentionGradients attend_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const AttentionPiece& whole, AttentionMask mask, AttentionKernel kernel);

/// The same, written to existing tensors of those shapes, which may be views.
void attend_backward_into(const AttentionGradients& into, const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionPiece& whole, AttentionMask mask, AttentionKernel kernel);

/// Merges attention over further keys into `whole`, in place; the tensors of `whole` have the logsumexp's type.
void join(const AttentionPiece& whole, const AttentionPiece& part);

}  // namespace weft
