// Stopwatch: elapsed time.
#pragma once

#include <chrono>

namespace weft {

/// Starts at construction.
class Stopwatch {
 public:
  /// Seconds since construction.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace weft
