// Sums of squares with the same bits for any division of a flat range at multiples of 64 elements.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "weft/base/exact_sum.h"

namespace weft {

/// Adds the squares of `values`, float32 [n], that begin at element `offset` of a flat range. Exact except for the rounding
/// within runs of 64 elements of the range, which no shard edge cuts.
void add_squares(const at::Tensor& values, int64_t offset, ExactSum& sum);

/// Scratch bytes of add_squares() for `numel` values on a device that is no CPU: their squares and sums in float64.
int64_t device_squares_bytes(int64_t numel);

}  // namespace weft
