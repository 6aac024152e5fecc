// Attention heads: activations [batch, tokens, width] split into the heads of each token, and merged back; key-value heads
// repeated for the query heads that read them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "weft/nn/attention/partial_types.h"

namespace weft {

/// One third of qkv [batch, tokens, 3 width] as [batch, heads, tokens, head width]: a view.
at::Tensor split_heads(const at::Tensor& qkv, int64_t third, int64_t heads);

/// [batch, heads, tokens, head width] as [batch, tokens, width]: a view if the heads of a token are adjacent.
at::Tensor merge_heads(const at::Tensor& x);

/// [batch, tokens, width] as [batch, heads, tokens, head width]: a view.
at::Tensor as_heads(const at::Tensor& x, int64_t heads);

/// An empty tensor like x [batch, heads, tokens, head width] with memory layout [batch, tokens, heads, head width].
at::Tensor token_major_like(const at::Tensor& x);

/// Throws InputError unless qkv [batch, tokens, 3 width] has whole heads. A projection that is not split by heads may leave a
/// rank less than one head, which fails this check.
void check_heads(const at::Tensor& qkv, int64_t heads);

/// Throws InputError unless q is [batch, heads, tokens, head width] and k and v match it. They may differ in heads, whose
/// number divides q's, and, without a mask, in tokens.
void check_grouped(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask = AttentionMask::causal);

/// Throws InputError unless dout matches q, and `whole` matches a result of attention over q.
void check_whole(const at::Tensor& dout, const at::Tensor& q, const AttentionPiece& whole);

/// Throws InputError unless each gradient matches its tensor.
void check_into(const AttentionGradients& into, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// Repeats each head of x [batch, heads, tokens, head width] `times` times, copies adjacent; returns x itself if times is 1.
at::Tensor repeat_heads(const at::Tensor& x, int64_t times);
/// Gradient of x, from the gradient of repeat_heads(x, times).
at::Tensor sum_repeats(const at::Tensor& gradient, int64_t times);

}  // namespace weft
