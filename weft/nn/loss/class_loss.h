// class_loss: cross-entropy of logits against one class per row, summed. On the CPU, in float32, the gradient is made in the
// same pass as the loss, in the one tensor that backward returns; on a device backward makes it, of the logits' own type, from
// a log-sum per row. LibTorch keeps all log-probabilities and makes another tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

/// Returns whether class_loss() takes such logits and targets (on the meta device: whether it would on the target device).
bool fits_class_loss(const at::Tensor& logits, const at::Tensor& target);

/// The loss summed over rows whose target is not `ignored`: float32, or float64 for float64 logits; logits [rows, classes],
/// target [rows] of int64. Differentiable once, by a single backward. Throws InputError, on the CPU, for a target that is not a
/// class.
at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& target, int64_t ignored);

}  // namespace weft
