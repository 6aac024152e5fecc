// Patience: how long to wait for another host, and when to report the wait.
#pragma once

#include <algorithm>

#include "weft/base/stopwatch.h"

namespace weft {

/// A limited wait, reported after 5 s and then once per minute.
class Patience {
 public:
  /// Starts now.
  explicit Patience(double most_s) : most_s_(most_s) {}

  bool is_over() const { return waited_s() > most_s_; }
  double waited_s() const { return waited_.seconds(); }
  double left_s() const { return std::max(most_s_ - waited_s(), 0.0); }
  /// Returns true when a line is due, once per line.
  bool is_due() {
    if (waited_s() < due_s_) return false;
    due_s_ = waited_s() + 60.0;
    return true;
  }

 private:
  Stopwatch waited_;
  double most_s_, due_s_ = 5.0;
};

}  // namespace weft
