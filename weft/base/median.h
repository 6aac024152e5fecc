// The median of measured times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weft {

/// Returns the median, the upper of two middle values; 0 for an empty list.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace weft
