// Patience: how long another host is waited for, and when a line should say so.
#pragma once

#include <algorithm>

#include "weft/base/stopwatch.h"

namespace weft {

/// A wait that has an end, and that is told after 5 s and each minute from then on.
class Patience {
 public:
  /// From now on.
  explicit Patience(double most_s) : most_s_(most_s) {}

  bool is_over() const { return waited_s() > most_s_; }
  double waited_s() const { return waited_.seconds(); }
  double left_s() const { return std::max(most_s_ - waited_s(), 0.0); }
  /// Whether it is time for a line; once for each.
  bool tells_now() {
    if (waited_s() < tells_s_) return false;
    tells_s_ = waited_s() + 60.0;
    return true;
  }

 private:
  Stopwatch waited_;
  double most_s_, tells_s_ = 5.0;
};

}  // namespace weft
