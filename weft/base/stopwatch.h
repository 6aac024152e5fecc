// Stopwatch: how long something took.
#pragma once

#include <chrono>

namespace weft {

/// Runs from when it was made.
class Stopwatch {
 public:
  /// Since it was made.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace weft
