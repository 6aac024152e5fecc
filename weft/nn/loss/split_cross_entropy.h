// Cross-entropy over logits whose classes are divided over ranks: the logits are never gathered.
#pragma once

#include <cstdint>

#include "weft/nn/model.h"

namespace weft {

/// cross_entropy() of `classes` classes, whose logits may also be this rank's part of context.tp's: [..., its classes], padded
/// at the end where they do not divide; or several pieces of them (nn/tensor_parallel/reproducible_parts.h). Stable (logits
/// less their maximum); float32. Traffic a rank, of n and t targets: 3 numbers a target in two all-reduces, 24 (n-1)/n t bytes
/// forward, none backward.
Loss vocabulary_cross_entropy(int64_t classes);

/// count_hits() of the same.
Hits vocabulary_hits(int64_t classes);

}  // namespace weft
