// Heartbeats for a held lock, and observation of the holder's heartbeats while waiting, by the waiting process's own clock.
// Clocks of two machines are never compared.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "weft/checkpoint/storage/lock_text.h"
#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Calls `beat` at that interval, on its own thread, until destroyed.
class Heartbeat {
 public:
  Heartbeat(std::chrono::milliseconds every, std::function<void()> beat);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  ///< last member: it uses the others
};

/// One wait for a lock.
class LockWatch {
 public:
  explicit LockWatch(const LockOptions& options) : options_(options) {}

  /// Judges the holder from the current text of its file, which is named `file`: `lives` once the text has changed, `ended` if
  /// its process is gone or nothing changed for LockOptions::stale.
  HolderLife judge(const std::string& file, const LockText& text);
  /// Throws HeldError if the holder is alive and LockOptions::patience is over; otherwise reports the wait, once.
  void wait_for(const std::string& folder, const LockText& holder, HolderLife life);
  /// Sleeps until the next check. Throws HeldError, naming the holder, after a long wait even if the holder's state is unknown.
  void pause(const std::string& folder, const LockText& holder) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds waited() const;  ///< since construction

  struct Seen {
    int64_t beats = 0;
    Clock::time_point since = {};
    bool has_moved = false;
  };

  LockOptions options_;
  Clock::time_point begin_ = Clock::now();
  std::map<std::string, Seen> seen_;
  bool has_reported_ = false;
};

}  // namespace weft
