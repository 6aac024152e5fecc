// What a Store holds: a way to a store that is served somewhere, whose calls all end in time. Only sources that speak to c10d
// include this.
//
// To a store of weft's every call is one trip, waits too (served_store.h); to others waits are made of c10d's calls, and poll
// (c10d_store.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/error.h"
#include "weft/comm/store/waited.h"

namespace weft {

/// The store is gone: its process has ended, or cannot be reached any more.
class LostStore : public CommError {
 public:
  using CommError::CommError;
};

/// A connection to a store.
class StoreConnection {
 public:
  StoreConnection(std::string server, std::chrono::milliseconds timeout) : server_(std::move(server)), timeout_(timeout) {}
  virtual ~StoreConnection() = default;
  StoreConnection(const StoreConnection&) = delete;
  StoreConnection& operator=(const StoreConnection&) = delete;

  /// Makes the call, and throws what it threw. False when it has not ended by then; it may yet run, so it must own what it
  /// uses.
  virtual bool run(std::function<void(c10d::Store&)> call, const Deadline& deadline) = 0;

  /// Waits for all of the keys. Where `unless` is not empty, that key ends the wait too; theirs count first. Throws CommError
  /// when the store is gone.
  virtual Waited await(const std::vector<std::string>& keys, const std::string& unless, const Deadline& deadline,
                       const Watch& watch) = 0;
  /// Brings a value to a gathering and waits for those of all ranks, as await() does.
  virtual Gathered gather(const Contribution& own, const std::string& unless, const Deadline& deadline, const Watch& watch) = 0;
  /// Who has not come to a gathering that this rank waits in, as Gathered tells it; `silent` where the store does not answer.
  virtual Gathered missing(const Contribution& own, const Deadline& deadline) = 0;

  /// The address of this host that other hosts reach it at, as far as the connection tells; else empty.
  virtual std::string address() { return {}; }
  /// Trips to the store so far; 0 where they are not counted.
  virtual int64_t trips() { return 0; }

  const std::string& server() const { return server_; }           ///< for errors: "rank 0", "the launcher"
  std::chrono::milliseconds timeout() const { return timeout_; }  ///< of calls that are given no deadline

  /// Makes the call and returns what it returns, or nothing when the store has not answered by the deadline. Throws CommError
  /// that names `key` when the store is gone.
  template <class Call>
  auto ask(const std::string& key, const Deadline& deadline, Call call) {
    const auto answer = std::make_shared<std::optional<decltype(call(std::declval<c10d::Store&>()))>>();
    const auto ask = [answer, call = std::move(call)](c10d::Store& store) { *answer = call(store); };
    return run_or_explain(key, ask, deadline) ? std::move(*answer) : std::nullopt;
  }
  /// Makes the call as ask() does, where no answer is an error too.
  template <class Call>
  auto insist(const std::string& key, const Deadline& deadline, Call call) {
    auto answer = ask(key, deadline.with_at_least(kToAnswer), std::move(call));
    if (!answer) no_answer(key, deadline);
    return *std::move(answer);
  }
  [[noreturn]] void no_answer(const std::string& key, const Deadline& deadline) const;

 protected:
  /// Throws CommError: the store is gone, as `problem` says.
  [[noreturn]] void gone(const std::string& key, const std::string& problem) const;

 private:
  bool run_or_explain(const std::string& key, std::function<void(c10d::Store&)> call, const Deadline& deadline);

  std::string server_;
  std::chrono::milliseconds timeout_;
};

}  // namespace weft
