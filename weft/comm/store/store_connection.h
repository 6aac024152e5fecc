// Connection of a Store to its server; every call ends by its deadline. Only sources that use c10d include this.
//
// With a weft store every call, even a wait, is one trip (served_store.h); with other stores, waits are built from c10d calls
// and poll (c10d_store.h).
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

/// The store is gone: its process has ended or is no longer reachable.
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

  /// Makes the call, and rethrows its exception. Returns false if it has not ended by the deadline; it may still run, so it
  /// must own everything it uses.
  virtual bool run(std::function<void(c10d::Store&)> call, const Deadline& deadline) = 0;

  /// Waits for all keys. If `unless` is not empty, that key ends the wait too; `keys` take precedence. Throws CommError if the
  /// store is gone.
  virtual Waited await(const std::vector<std::string>& keys, const std::string& unless, const Deadline& deadline,
                       const Watch& watch) = 0;
  /// Contributes a value to a gathering and waits for those of all ranks, like await().
  virtual Gathered gather(const Contribution& own, const std::string& unless, const Deadline& deadline, const Watch& watch) = 0;
  /// Returns the ranks missing from a gathering that this rank waits in; `silent` if the store does not answer.
  virtual Gathered missing(const Contribution& own, const Deadline& deadline) = 0;

  /// Returns this host's address for other hosts, if the connection shows it; else empty.
  virtual std::string address() { return {}; }
  /// Trips to the store so far; 0 if not counted.
  virtual int64_t trips() { return 0; }

  const std::string& server() const { return server_; }           ///< for errors: "rank 0", "the launcher"
  std::chrono::milliseconds timeout() const { return timeout_; }  ///< for calls without a deadline

  /// Makes the call and returns its result, or nullopt if the store has not answered by the deadline. Throws CommError that
  /// names `key` if the store is gone.
  template <class Call>
  auto ask(const std::string& key, const Deadline& deadline, Call call) {
    const auto answer = std::make_shared<std::optional<decltype(call(std::declval<c10d::Store&>()))>>();
    const auto ask = [answer, call = std::move(call)](c10d::Store& store) { *answer = call(store); };
    return run_or_explain(key, ask, deadline) ? std::move(*answer) : std::nullopt;
  }
  /// Makes the call like ask(), but throws if there is no answer.
  template <class Call>
  auto ask_or_throw(const std::string& key, const Deadline& deadline, Call call) {
    auto answer = ask(key, deadline.with_at_least(kToAnswer), std::move(call));
    if (!answer) no_answer(key, deadline);
    return *std::move(answer);
  }
  [[noreturn]] void no_answer(const std::string& key, const Deadline& deadline) const;

 protected:
  /// Throws CommError: the store is gone because of `problem`.
  [[noreturn]] void gone(const std::string& key, const std::string& problem) const;

 private:
  bool run_or_explain(const std::string& key, std::function<void(c10d::Store&)> call, const Deadline& deadline);

  std::string server_;
  std::chrono::milliseconds timeout_;
};

}  // namespace weft
