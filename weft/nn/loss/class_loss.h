// class_loss: cross-entropy of logits against one class per row, summed, on the CPU in float32. The gradient is made in the
// same pass as the loss, in the one tensor that backward returns; LibTorch keeps all log-probabilities and makes another
// tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

/// Returns whether class_loss() takes such logits and targets (on the meta device: whether it would on the CPU).
bool fits_class_loss(const at::Tensor& logits, const at::Tensor& target);

/// The loss summed over rows whose target is not `ignored`; logits [rows, classes], target [rows] of int64. Differentiable
/// once, by a single backward. Throws InputError for a target that is not a class.
at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& target, int64_t ignored);

}  // namespace weft
