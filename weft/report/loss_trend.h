// LossTrend: whether a loss has gone up, as means over some steps show it, since single batches differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace weft {

class LossTrend {
 public:
  /// Of a run of so many steps. Means are over a tenth of them, of 1 to 20.
  explicit LossTrend(int64_t steps);

  void add(double loss);
  double late() const { return late_; }    ///< the mean over the last steps; 0 before there are as many
  double least() const { return least_; }  ///< the least of those means

 private:
  size_t window_;
  std::deque<double> last_;
  double late_ = 0.0, least_ = 0.0;
};

}  // namespace weft
