// repeat_heads: key-value heads as often as query heads read them.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Each head of x [batch, heads, tokens, head width] `times` times, side by side; x itself for once.
at::Tensor repeat_heads(const at::Tensor& x, int64_t times);
/// The gradient of x from that of repeat_heads(x, times).
at::Tensor sum_repeats(const at::Tensor& gradient, int64_t times);

}  // namespace weft
