// Watchdog of a NCCL back end, and the monitor that watches it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "weft/checked_device/nccl/communicator.h"

namespace weft::checked_device {

class Watchdog {
 public:
  /// `oldest` gives the longest launch under way; `abort` ends all.
  Watchdog(std::chrono::milliseconds timeout, std::function<std::optional<Launched>()> oldest, std::function<void()> abort);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void stop();

 private:
  void watch();
  void monitor();

  const std::chrono::milliseconds timeout_;
  const std::function<std::optional<Launched>()> oldest_;
  const std::function<void()> abort_;
  const int error_handling_;
  const std::chrono::milliseconds heartbeat_timeout_;
  std::atomic<bool> stopped_ = false;
  std::atomic<uint64_t> beats_ = 0;
  std::thread watch_, monitor_;
};

}  // namespace weft::checked_device
