// Waiting in tests: always with a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace weft {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Returns false if the condition does not become true in time.
inline bool wait_until(const std::function<bool()>& condition, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    if (seconds_since(start) > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace weft
