// Distance of two float32 tensors: in units in the last place, and relative to their largest element.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

/// The largest element deviation.
struct WeightDifference {
  int64_t ulps = 0;       ///< units in the last place: number of float32 values in between, plus one; 0: equal bits
  double relative = 0.0;  ///< |a - b| over the largest element of both, 0 to 2; 2 if a differing value is not finite
};

/// Compares contiguous CPU tensors of one shape, in one pass without extra memory. Zeros of opposite sign are one unit apart,
/// because their bits differ. Dtypes other than float32 (buffers) give 0 for equal bits, else the maximum.
WeightDifference weight_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace weft
