// Attention's heads: activations [batch, tokens, width] as heads that lie side by side in each token, and back; key-value heads
// as often as query heads read them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "weft/nn/attention/partial_types.h"

namespace weft {

/// One third of qkv [batch, tokens, 3 width] as [batch, heads, tokens, head width]: a view.
at::Tensor split_heads(const at::Tensor& qkv, int64_t third, int64_t heads);

/// [batch, heads, tokens, head width] as [batch, tokens, width]: a view where the heads of a token lie side by side.
at::Tensor merge_heads(const at::Tensor& x);

/// [batch, tokens, width] as [batch, heads, tokens, head width]: a view.
at::Tensor as_heads(const at::Tensor& x, int64_t heads);

/// Throws InputError unless qkv [batch, tokens, 3 width] has whole heads: a rank that has less than one, as of a projection
/// that is not split by heads, has none.
void check_heads(const at::Tensor& qkv, int64_t heads);

/// Throws InputError unless q is [batch, heads, tokens, head width], and k and v are like it but for their heads, which divide
/// those of q, and, without a mask, their tokens.
void check_grouped(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask = AttentionMask::causal);

/// Throws InputError unless dout is like q and `whole` what attention over q gives.
void check_whole(const at::Tensor& dout, const at::Tensor& q, const AttentionPiece& whole);

/// Throws InputError unless each is like that which it is the gradient of.
void check_into(const AttentionGradients& into, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// Each head of x [batch, heads, tokens, head width] `times` times, side by side; x itself for once.
at::Tensor repeat_heads(const at::Tensor& x, int64_t times);
/// The gradient of x from that of repeat_heads(x, times).
at::Tensor sum_repeats(const at::Tensor& gradient, int64_t times);

}  // namespace weft
