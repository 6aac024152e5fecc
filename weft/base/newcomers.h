// Newcomers: a listener's connections that have not authenticated yet: which one to evict for a new one, and when each one's
// time to authenticate ends. Works on numbers, addresses and times; the listener closes the connections.
//
// Anyone who can reach the port can fill such a list, so a new connection evicts the oldest. But a flood must not push out
// connections that are about to authenticate: while the oldest is young, new ones wait in the kernel's queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace weft {

struct NewcomerLimits {
  size_t most = 0;                          ///< total connections
  size_t max_per_address = SIZE_MAX;        ///< connections per address, which several hosts behind a router may share
  std::chrono::milliseconds young = {};     ///< below this age the oldest is not evicted
  std::chrono::milliseconds to_prove = {};  ///< time to authenticate
};

class Newcomers {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  explicit Newcomers(const NewcomerLimits& limits) : limits_(limits) {}

  /// Returns whether another connection may be accepted now.
  bool has_room(Time now) const;
  /// Returns the connection to evict before one from `address` is added: if that address has too many, its oldest, whatever its
  /// age; else, if the list is full, the oldest of all.
  std::optional<uint64_t> to_evict(const std::string& address = {}) const;
  /// Adds a connection. Numbers and arrival times must both increase.
  void add(uint64_t number, Time now, const std::string& address = {});
  /// Removes a connection that has authenticated or closed. Returns whether it was listed.
  bool remove(uint64_t number) { return all_.erase(number) > 0; }

  /// Returns the oldest connection if its time has expired.
  std::optional<uint64_t> expired(Time now) const;
  /// Returns when the next connection expires.
  std::optional<Time> next_due() const;

 private:
  struct Newcomer {
    Time since;
    std::string address;
  };

  NewcomerLimits limits_;
  std::map<uint64_t, Newcomer> all_;  ///< by number, oldest first
};

}  // namespace weft
