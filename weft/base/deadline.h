// Deadline: until when something is waited for. One object may bound several waits, which then have its time together.
#pragma once

#include <algorithm>
#include <chrono>

#include "weft/base/time_limit.h"

namespace weft {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// `timeout` from now on, within what time_limit() allows. Not explicit, so that a time stands for a Deadline.
  Deadline(std::chrono::milliseconds timeout) : timeout_(time_limit(timeout)), end_(Clock::now() + timeout_) {}  // NOLINT

  std::chrono::milliseconds timeout() const { return timeout_; }
  Clock::time_point end() const { return end_; }
  bool passed() const { return Clock::now() >= end_; }
  /// The time left, never below zero.
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::milliseconds(0), std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()));
  }
  /// This one, put off where less than `time` is left.
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
