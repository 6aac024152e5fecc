// Members: the ranks of a shm group as seen by one of them. Finds out why a wait does not end: a peer died, left or waits in a
// different call, a rank failed elsewhere, or the deadline passed. Costs nothing while waits are short.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/call/axis.h"
#include "weft/comm/host/shared_memory.h"
#include "weft/comm/shm/control.h"
#include "weft/comm/shm/wait.h"
#include "weft/comm/wait/rank_table.h"

namespace weft::shm {

class Members {
 public:
  using Clock = std::chrono::steady_clock;

  Members(Control& control, Axis axis, std::shared_ptr<RankTable> table, std::chrono::milliseconds timeout);

  Control& control() const { return control_; }
  RankBlock& block(int rank) const { return control_.ranks[rank]; }
  int rank() const { return axis_.index; }
  int size() const { return axis_.size(); }
  const Axis& axis() const { return axis_; }
  const std::string& group() const { return axis_.name; }

  /// Opens a watch on every peer's process, and sees whose cores are whose, once all have joined.
  void watch_peers();
  /// How long to spin before sleeping: longer from then on if every rank has its own core.
  SpinPolicy spin() const { return spin_; }
  /// Throws the group's error, if any.
  void throw_if_failed() const;
  /// Ends the group on all its ranks with this error and throws it; the first error wins. `culprit`: world rank, or -1.
  [[noreturn]] void fail(int culprit, const std::string& text) const;
  /// Leaves the group; a wait of this rank in another thread ends with an error. Thread-safe.
  void leave();

  /// Moves pending sends; returns whether any remain. Set by the channels.
  std::function<bool()> push_pending = [] { return false; };
  /// Returns whether nothing is in flight to a peer. Set by the channels.
  std::function<bool(int)> nothing_in_flight = [](int) { return true; };

  /// One blocked wait, from its first sleep on. check() is called about every kCheckEvery and throws as described above.
  class Wait {
   public:
    Wait(Members& members, Blocked kind, int peer, const Call& call);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    void check();

   private:
    void show(const std::vector<int>& peers);
    void check_peer(int peer);
    [[noreturn]] void report_lost(int peer, const std::string& how) const;
    bool waits_for_me(int peer) const;
    [[noreturn]] void miss_deadline() const;
    std::vector<int> awaited() const;

    Members& members_;
    Blocked kind_;
    int peer_;
    const Call& call_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point last_check_ = start_;
    std::vector<uint32_t> suspects_;  ///< serial of a peer's contradicting wait
    std::vector<int> sightings_;      ///< consecutive sightings of that serial
    std::optional<RankTable::Waiting> shown_;
  };

 private:
  std::string last_call(int rank) const;
  std::string present_call(int rank) const;

  Control& control_;
  Axis axis_;
  std::shared_ptr<RankTable> table_;
  std::chrono::milliseconds timeout_;
  SpinPolicy spin_ = spin_policy(2, 1);
  std::vector<FileDescriptor> watched_;
};

constexpr std::chrono::milliseconds kCheckEvery{50};

}  // namespace weft::shm
