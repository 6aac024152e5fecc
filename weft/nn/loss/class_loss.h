// class_loss: cross-entropy of logits against one class a row, summed, on the CPU in float32: the gradient is made in the same
// pass as the loss, in the one tensor that backward hands on. LibTorch keeps the logarithms of all probabilities, and makes
// another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

/// Whether class_loss() takes such logits and targets; on the meta device, whether it would.
bool fits_class_loss(const at::Tensor& logits, const at::Tensor& target);

/// The sum over rows whose target is not `ignored`: logits [rows, classes], target [rows] of int64. Differentiable once, and by
/// one backward. Throws InputError for a target that is no class.
at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& target, int64_t ignored);

}  // namespace weft
