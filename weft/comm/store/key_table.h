// KeyTable: the keys of a store server, and the clients that wait for them. No sockets and no clock.
//
// Each request (message.h) gets one answer: immediately, when its keys arrive, or when its time has passed. A wait takes one
// entry here and no work while it lasts. The answer to all gathering ranks is created once and shared; a run of equal values
// takes the space of one value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/comm/store/message.h"

namespace weft {

class KeyTable {
 public:
  using Time = Deadline::Clock::time_point;
  using Body = std::shared_ptr<const std::string>;
  /// Origin of a request: a connection, and the request's number on it.
  struct Asker {
    uint64_t connection = 0;
    uint32_t number = 0;
  };
  using Answer = std::function<void(const Asker&, message::Status, const Body&)>;

  explicit KeyTable(Answer answer) : answer_(std::move(answer)) {}

  /// Handles a request of `kind`. Throws message::Malformed without changing anything.
  void ask(const Asker& asker, uint8_t kind, std::string_view body, Time now);
  /// Drops a connection's waits. Keys it has set stay.
  void forget(uint64_t connection);
  /// Answers the waits whose time has passed.
  void expire(Time now);
  /// Returns when expire() is next due.
  std::optional<Time> next_due() const;
  /// Sets the answer to `address` requests.
  void set_address(const std::string& address) { address_ = address; }

 private:
  struct Waiter {
    Asker asker;
    Time due;
    std::string unless;
    std::vector<std::string> keys = {};
    size_t present_keys = 0;  ///< keys that have arrived
    std::string gathering = {};
    uint32_t size = 0;  ///< size of the gathering, as the waiting rank gave it
  };
  struct Member {
    uint32_t rank = 0, size = 0;
  };
  struct Gathering {
    Member first;
    std::optional<Member> other;  ///< a rank whose size differs from the first
    std::map<uint32_t, std::string> values;
    std::set<uint64_t> waiters;
  };

  void answer(const Asker& asker, message::Status status, std::string body = {});
  std::optional<std::string> look(message::Request request, message::Reader& in) const;
  std::string change(message::Request request, message::Reader& in);
  void set(const std::string& key, std::string value);
  void wake(const std::string& key);
  void await(const Asker& asker, message::Reader& in, Time now);
  void gather(const Asker& asker, message::Reader& in, Time now);
  uint64_t keep(Waiter waiter, uint64_t milliseconds, Time now);
  Waiter drop(uint64_t number);
  bool answer_if_present(Waiter& waiter);
  bool answer_instead(const Waiter& waiter);
  void watch(uint64_t number, const Waiter& waiter);
  void answer_mismatch(const Asker& asker, uint32_t size, const Gathering& gathering);
  std::string missing_of(const std::string& gathering) const;

  Answer answer_;
  std::string address_;
  std::unordered_map<std::string, std::string> values_;
  std::vector<std::string> changed_;  ///< by the current request
  std::unordered_map<std::string, Gathering> gatherings_;
  uint64_t waits_ = 0;
  std::unordered_map<uint64_t, Waiter> waiters_;
  std::unordered_map<std::string, std::unordered_set<uint64_t>> by_key_;
  std::unordered_map<uint64_t, std::unordered_set<uint64_t>> by_connection_;
  std::set<std::pair<Time, uint64_t>> by_time_;
};

}  // namespace weft
