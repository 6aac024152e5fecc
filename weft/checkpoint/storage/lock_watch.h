// What is needed to hold a lock that others may believe in, and to wait for one: signs of life, and their absence, by the clock
// of whoever waits. Clocks of two machines are never compared.
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

/// Calls `beat` every so often, on a thread of its own, until it goes.
class Heartbeat {
 public:
  Heartbeat(std::chrono::milliseconds every, std::function<void()> beat);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  ///< the last member: it uses the others
};

/// One wait for a lock.
class LockWatch {
 public:
  explicit LockWatch(const LockOptions& options) : options_(options) {}

  /// What is known of the holder by what its file, of that name, says now: `lives` once it was seen to, `ended` where its
  /// process is gone or it has said nothing new for LockOptions::stale.
  HolderLife look(const std::string& file, const LockText& text);
  /// Throws HeldError where the holder lives and LockOptions::patience is over; else tells, once, that it is waited for.
  void wait_for(const std::string& folder, const LockText& holder, HolderLife life);
  /// Until it is time to look again. Throws HeldError, which names the holder, where that has gone on for long enough whatever
  /// is known of it.
  void rest(const std::string& folder, const LockText& holder) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds waited() const;  ///< since it was made

  struct Seen {
    int64_t beats = 0;
    Clock::time_point since = {};
    bool has_moved = false;
  };

  LockOptions options_;
  Clock::time_point begin_ = Clock::now();
  std::map<std::string, Seen> seen_;
  bool has_told_ = false;
};

}  // namespace weft
