// Cross-entropy over logits whose classes are divided over ranks: the logits are never gathered.
#pragma once

#include <cstdint>

#include "weft/nn/model.h"

namespace weft {

/// Cross entropy over `classes` classes, from whole logits or, divided over context.tp, a part [..., own classes] padded at the
/// end if uneven, or several pieces (nn/tensor_parallel/reproducible_parts.h). Computed in float32 on logits less their
/// maximum, for stability. Traffic per rank, for n ranks and t targets: 3 numbers per target in two all-reduces, 24 (n-1)/n t
/// bytes forward, 0 backward. Also takes what language_head() (nn/loss/language_head.h) returns instead of logits.
Loss vocabulary_cross_entropy(int64_t classes);

/// The targets as ids for vocabulary_loss(). Throws InputError, on the CPU, for a target that is neither a class nor -100.
at::Tensor vocabulary_targets(const at::Tensor& target, int64_t classes);
/// The sum that vocabulary_cross_entropy() returns.
at::Tensor vocabulary_loss(const at::Tensor& logits, const at::Tensor& ids, int64_t classes, const Context& context);

/// count_hits() for the same logits.
Hits vocabulary_hits(int64_t classes);

}  // namespace weft
