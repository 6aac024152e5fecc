// What a Store holds: a way to a c10d store, whose calls all end in time. Only sources that speak to c10d include this.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "weft/base/deadline.h"
#include "weft/base/file_descriptor.h"
#include "weft/comm/store/answer_time.h"

namespace weft {

/// A connection to a c10d store.
class StoreConnection {
 public:
  StoreConnection(std::string server, std::chrono::milliseconds timeout) : server_(std::move(server)), timeout_(timeout) {}
  virtual ~StoreConnection() = default;
  StoreConnection(const StoreConnection&) = delete;
  StoreConnection& operator=(const StoreConnection&) = delete;

  /// Makes the call, and throws what it threw. False when it has not ended by then; it may yet run, so it must own what it
  /// uses.
  virtual bool run(std::function<void(c10d::Store&)> call, const Deadline& deadline) = 0;

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

 private:
  bool run_or_explain(const std::string& key, std::function<void(c10d::Store&)> call, const Deadline& deadline);

  std::string server_;
  std::chrono::milliseconds timeout_;
};

/// Where a store over TCP is: `server` serves it at `host`:`port`.
struct StoreAddress {
  std::string server, host;
  int port = 0;
};

/// Connects to a store. Throws CommError when it cannot be reached in time. `timeout` is also that of the connection's later
/// calls.
std::shared_ptr<StoreConnection> connect(const StoreAddress& address, std::chrono::milliseconds timeout);
/// Serves a store and connects to it: on a socket that listens at that port, or, where that is empty, on all interfaces.
std::shared_ptr<StoreConnection> serve(const StoreAddress& address, FileDescriptor socket, std::chrono::milliseconds timeout);
/// Makes a store inside this process.
std::shared_ptr<StoreConnection> make_local_store();

}  // namespace weft
