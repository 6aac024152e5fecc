// Newcomers: the connections to a listener that have proven nothing yet: which of them makes room for another, and when their
// time to prove themselves is over. Arithmetic on numbers, addresses and times; the listener closes the connections.
//
// Whoever can reach the port can fill any such list, so one that comes takes the place of the oldest. At any age, a flood would
// push out those that are about to prove themselves: while the oldest is young, others wait in the kernel's queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace weft {

struct NewcomerLimits {
  size_t most = 0;                          ///< in all
  size_t most_of_address = SIZE_MAX;        ///< of one address, which several hosts behind a router may share
  std::chrono::milliseconds young = {};     ///< below this age the oldest of all does not make room
  std::chrono::milliseconds to_prove = {};  ///< from its coming on
};

class Newcomers {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  explicit Newcomers(const NewcomerLimits& limits) : limits_(limits) {}

  /// Whether another may be accepted now.
  bool has_room(Time now) const;
  /// Which one makes room for another from that address: the oldest from there where there are too many of them, whatever its
  /// age, else the oldest of all where they are too many. Remove it before the other is added.
  std::optional<uint64_t> makes_room(const std::string& address = {}) const;
  /// Numbers and times of coming rise together.
  void add(uint64_t number, Time now, const std::string& address = {});
  /// It has proven itself or has gone. Whether it was one of these.
  bool remove(uint64_t number) { return all_.erase(number) > 0; }

  /// The oldest one, where its time is over.
  std::optional<uint64_t> expired(Time now) const;
  /// When the next one's time is over.
  std::optional<Time> next_due() const;

 private:
  struct Newcomer {
    Time since;
    std::string address;
  };

  NewcomerLimits limits_;
  std::map<uint64_t, Newcomer> all_;  ///< by number, so the oldest first
};

}  // namespace weft
