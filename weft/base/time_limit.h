// time_limit: how long a wait is that somebody asked for, as a time that can be added to any clock's: an option of infinitely
// many seconds, or of 1e300, is not an overflow but forever.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weft {

/// A century: nobody waits longer, and nanoseconds from any moment on have room for it.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365 * 100);

/// The time, at most kForever; none where it is negative.
constexpr std::chrono::milliseconds time_limit(std::chrono::milliseconds time) {
  return std::clamp(time, std::chrono::milliseconds(0), kForever);
}

/// So many seconds, rounded up to milliseconds and at most kForever; none where they are negative or not a number.
constexpr std::chrono::milliseconds time_limit(double seconds) {
  constexpr double kMost_s = static_cast<double>(kForever.count()) / 1e3;
  if (!(seconds > 0.0)) return std::chrono::milliseconds(0);
  if (seconds >= kMost_s) return kForever;
  const auto whole = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
  return static_cast<double>(whole.count()) < seconds * 1e3 ? whole + std::chrono::milliseconds(1) : whole;
}

}  // namespace weft
