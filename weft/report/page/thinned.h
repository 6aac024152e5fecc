// thinned: a curve of any length as a few points, without losing an extreme.
#pragma once

#include <cstddef>
#include <vector>

namespace weft {

/// Points of a curve, by group of consecutive ones; NaN where a group has no finite value.
struct ThinnedCurve {
  std::vector<double> low = {}, mean = {}, high = {};
};

/// Bounds of at most `most` groups of `count` points: group i is [bounds[i], bounds[i + 1]).
std::vector<size_t> thinned_groups(size_t count, size_t most);
ThinnedCurve thinned(const std::vector<double>& values, const std::vector<size_t>& bounds);
/// The last value of each group.
std::vector<double> thinned_ends(const std::vector<double>& values, const std::vector<size_t>& bounds);

}  // namespace weft
