// attention_heads: activations [batch, tokens, width] as heads that lie side by side in each token, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

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

/// Throws InputError unless the key-value heads of k divide the query heads of q, [batch, heads, tokens, head width] both.
void check_grouped(const at::Tensor& q, const at::Tensor& k);

}  // namespace weft
