#include "weft/train/compare/weight_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "weft/checkpoint/format/compare_checkpoints.h"

namespace weft {

namespace {

constexpr double kMost = 2.0;  ///< largest relative difference: a = -b

/// Maps floats to integers that preserve order: ..., -2, -1 for -0, 0 for +0, 1, ...
int64_t place(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits >= 0 ? bits : -int64_t{bits & 0x7fffffff} - 1;
}

}  // namespace

WeightDifference weight_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat) {
    const bool same = a.scalar_type() == b.scalar_type() && same_bits(a, b);
    return same ? WeightDifference{} : WeightDifference{std::numeric_limits<int64_t>::max(), kMost};
  }
  const float* x = a.const_data_ptr<float>();
  const float* y = b.const_data_ptr<float>();
  WeightDifference result;
  double off = 0.0, largest = 0.0;
  bool comparable = true;
  for (int64_t i = 0; i < a.numel(); ++i) {
    for (const float value : {x[i], y[i]}) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(double{value}));
    }
    const int64_t ulps = std::abs(place(x[i]) - place(y[i]));
    if (ulps == 0) continue;
    result.ulps = std::max(result.ulps, ulps);
    if (std::isfinite(x[i]) && std::isfinite(y[i])) {
      off = std::max(off, std::abs(double{x[i]} - double{y[i]}));
    } else {
      comparable = false;
    }
  }
  result.relative = !comparable ? kMost : off > 0.0 ? off / largest : 0.0;
  return result;
}

}  // namespace weft
