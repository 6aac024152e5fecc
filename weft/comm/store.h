// Store: strings under keys that all ranks of a world share, for meeting and for building groups; not for bulk data.
//
// A small value; copies share one connection. Every wait has a deadline, after which a CommError names the key waited for.
// Waiting polls with growing pauses, so that a rank that waits never keeps another thread of its process from the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace weft {

class RankTable;

class Store {
 public:
  struct Connection;  // holds the c10d store, comm/c10d/store_connection.h

  explicit Store(std::shared_ptr<Connection> connection, std::string prefix = "");

  void set(const std::string& key, const std::string& value);
  /// Waits until the key is there. `what` says in the error what was waited for.
  std::string get(const std::string& key, std::chrono::milliseconds timeout, const std::string& what);
  bool has(const std::string& key);
  int64_t add(const std::string& key, int64_t amount);

  /// This store, whose get() also ends with the text under `key` as its error once another rank has set that.
  Store failing_on(const std::string& key) const;
  /// Throws that error if it has been set. For whoever fails without waiting: a peer may have left because of it.
  void throw_if_failed();
  /// The same store with every key below `prefix`.
  Store below(const std::string& prefix) const;

  /// The same store, with the table of who waits for whom.
  Store with(std::shared_ptr<RankTable> table) const;
  const std::shared_ptr<RankTable>& table() const { return table_; }

  const std::string& prefix() const { return prefix_; }
  Connection& connection() const { return *connection_; }

 private:
  std::shared_ptr<Connection> connection_;
  std::string prefix_;
  std::string failure_key_;  ///< whole, with its prefix; empty for none
  std::shared_ptr<RankTable> table_;
};

}  // namespace weft
