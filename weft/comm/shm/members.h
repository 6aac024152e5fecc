// Members: the ranks of a shm group as seen from one of them. Finds out why a wait does not end: a peer that died or left, a
// peer that waits for something else, an error elsewhere, the deadline. Costs nothing while waits are short.
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

  /// Opens a watch on every peer's process; all have joined.
  void watch_peers();
  /// Throws the group's error, if it has one.
  void throw_if_failed() const;
  /// Ends the group on all its ranks with this error, about a rank of the world or -1, and throws it; the first of several
  /// wins.
  [[noreturn]] void fail(int culprit, const std::string& text) const;
  void leave();

  /// Moves what waits to be sent and says whether anything still does. Set by the channels.
  std::function<bool()> push_pending = [] { return false; };
  /// Whether nothing is on its way to a peer. Set by the channels.
  std::function<bool(int)> nothing_on_its_way = [](int) { return true; };

  /// One blocked wait, from when it goes to sleep. check() is called about every kCheckEvery and throws as said above.
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
    [[noreturn]] void lose(int peer, const std::string& how) const;
    bool waits_for_me(int peer) const;
    [[noreturn]] void miss_deadline() const;
    std::vector<int> awaited() const;

    Members& members_;
    Blocked kind_;
    int peer_;
    const Call& call_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point last_check_ = start_;
    std::vector<uint32_t> suspects_;  ///< serial of a peer's wait that this one contradicts, and
    std::vector<int> sightings_;      ///< how often in a row it was seen
    std::optional<RankTable::Waiting> shown_;
  };

 private:
  std::string last_call(int rank) const;
  std::string present_call(int rank) const;

  Control& control_;
  Axis axis_;
  std::shared_ptr<RankTable> table_;
  std::chrono::milliseconds timeout_;
  std::vector<FileDescriptor> watched_;
};

constexpr std::chrono::milliseconds kCheckEvery{50};

}  // namespace weft::shm
