// Clipping by the exact global norm: over every trained element of the model once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "weft/base/target_device.h"
#include "weft/nn/flat/flat_model.h"

namespace weft {

/// Adds the squares of all gradients that this rank owns, excluding statistics and padding, to the exact sum in `words`
/// (nn/exact_sums.h), on the model's device. Exact except for the rounding within aligned runs of 64 elements, which no shard
/// edge cuts: for any division of the model, the ranks' sums add up to the same bits. On a device: one launch per 128 groups.
void add_squares(FlatModel& model, const at::Tensor& words);

/// Adds the squares of all of a block's gradients, as this rank's backward left them, in the same runs.
void add_block_squares(FlatModel& model, int block, const at::Tensor& words);

/// Peak scratch bytes of add_squares() for `numel` gradients that a rank owns of a block, of `gradient_bytes` per element.
int64_t squares_bytes(TargetDevice device, int64_t numel, int gradient_bytes);

/// Factor for gradients that limits their norm to `limit` (Pascanu et al. 2013): min(1, limit / norm).
double clip_factor(double norm, double limit);

}  // namespace weft
