// attention: causal self-attention over a fused projection.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Attends within `qkv` [batch, tokens, 3 width], queries, keys and values, heads side by side inside each third; returns
/// [batch, tokens, width]. Exact, causal, scaled by 1/sqrt(width / heads), without dropout. Keeps qkv, its output and one
/// number a query and head for backward, never the matrix of weights (FlashAttention, Dao et al. 2022).
at::Tensor attention(const at::Tensor& qkv, int64_t heads);

}  // namespace weft
