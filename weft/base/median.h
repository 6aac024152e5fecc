// The median: what measured times have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weft {

/// The value in the middle by size, the upper of two; 0 for no values.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace weft
