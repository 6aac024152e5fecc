// Deadline: the end of a wait. Several waits may share one object and thus one time budget.
#pragma once

#include <algorithm>
#include <chrono>

#include "weft/base/time_limit.h"

namespace weft {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Expires `timeout` from now, clamped by time_limit(). Not explicit, so a duration converts to a Deadline.
  Deadline(std::chrono::milliseconds timeout) : timeout_(time_limit(timeout)), end_(Clock::now() + timeout_) {}  // NOLINT

  std::chrono::milliseconds timeout() const { return timeout_; }
  Clock::time_point end() const { return end_; }
  bool passed() const { return Clock::now() >= end_; }
  /// Time left, never below zero.
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::milliseconds(0), std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()));
  }
  /// Returns this deadline, extended if less than `time` is left.
  Deadline with_at_least(std::chrono::milliseconds time) const {
    Deadline later = *this;
    later.end_ = std::max(end_, Clock::now() + time_limit(time));
    return later;
  }

 private:
  std::chrono::milliseconds timeout_;
  Clock::time_point end_;
};

}  // namespace weft
