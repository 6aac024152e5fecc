// LossTrend: detects a rising loss from means over several steps, since single batches vary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace weft {

class LossTrend {
 public:
  /// For a run of `steps` steps. Means are over a tenth of them, but at least 1 and at most 20.
  explicit LossTrend(int64_t steps);

  void add(double loss);
  double late() const { return late_; }    ///< mean over the last steps; 0 until there are enough
  double least() const { return least_; }  ///< smallest of these means

 private:
  size_t window_;
  std::deque<double> last_;
  double late_ = 0.0, least_ = 0.0;
};

}  // namespace weft
