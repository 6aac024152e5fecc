// How far two float32 tensors are apart: in units in the last place, and relative to their largest element.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

/// The most that an element is off.
struct WeightDifference {
  int64_t ulps = 0;       ///< units in the last place: float32 values that lie between the two, plus one; 0: the same bits
  double relative = 0.0;  ///< |a - b| over the largest element of both, 0 to 2; 2 where only one of the two is a number
};

/// Compares contiguous tensors of one shape on the CPU, in one pass and no memory. Zeros of either sign are a unit apart: their
/// bits differ. Of other types than float32, which buffers have, nothing tells how far they are apart: as far as can be, unless
/// they have the same bits.
WeightDifference weight_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace weft
