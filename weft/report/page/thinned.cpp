#include "weft/report/page/thinned.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {

std::vector<size_t> thinned_groups(size_t count, size_t most) {
  const size_t groups = std::min(count, std::max<size_t>(most, 1));
  std::vector<size_t> bounds = {0};
  for (size_t group = 1; group <= groups; ++group) bounds.push_back(count * group / groups);
  return bounds;
}

ThinnedCurve thinned(const std::vector<double>& values, const std::vector<size_t>& bounds) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  ThinnedCurve curve;
  for (size_t group = 0; group + 1 < bounds.size(); ++group) {
    double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0.0, count = 0.0;
    for (size_t i = bounds[group]; i < std::min(bounds[group + 1], values.size()); ++i) {
      if (!std::isfinite(values[i])) continue;
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
      sum += values[i];
      count += 1.0;
    }
    curve.low.push_back(count > 0.0 ? low : kNothing);
    curve.mean.push_back(count > 0.0 ? sum / count : kNothing);
    curve.high.push_back(count > 0.0 ? high : kNothing);
  }
  return curve;
}

std::vector<double> thinned_ends(const std::vector<double>& values, const std::vector<size_t>& bounds) {
  std::vector<double> ends;
  for (size_t group = 1; group < bounds.size(); ++group) ends.push_back(values[bounds[group] - 1]);
  return ends;
}

}  // namespace weft
