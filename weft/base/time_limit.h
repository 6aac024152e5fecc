// time_limit: bounds a requested wait so that adding it to a clock's time cannot overflow: an option of `inf` or 1e300 seconds
// means forever.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weft {

/// A century: longer than any wait, yet added to any time it still fits a clock's nanoseconds.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365 * 100);

/// Clamps the time to at most kForever and at least zero.
constexpr std::chrono::milliseconds time_limit(std::chrono::milliseconds time) {
  return std::clamp(time, std::chrono::milliseconds(0), kForever);
}

/// Converts seconds to milliseconds, rounded up, at most kForever; zero for negative numbers and NaN.
constexpr std::chrono::milliseconds time_limit(double seconds) {
  constexpr double kMost_s = static_cast<double>(kForever.count()) / 1e3;
  if (!(seconds > 0.0)) return std::chrono::milliseconds(0);
  if (seconds >= kMost_s) return kForever;
  const auto whole = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
  return static_cast<double>(whole.count()) < seconds * 1e3 ? whole + std::chrono::milliseconds(1) : whole;
}

}  // namespace weft
