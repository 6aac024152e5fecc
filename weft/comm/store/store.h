// Store: strings under keys that all ranks of a world share, for meeting and for building groups; not for bulk data.
//
// A small value; copies share one connection. Every call has a deadline, also where the store does not answer (whoever serves
// it is stopped, or behind a network that swallows packets); then a CommError names what was waited for. Waiting polls with
// growing pauses, so that a rank that waits never keeps another thread of its process from the store.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weft/base/deadline.h"

namespace weft {

class Error;
class RankTable;
class StoreConnection;  // to a c10d store, comm/store/store_connection.h

/// Strings under keys, of all ranks of a world.
class Store {
 public:
  /// A key whose value, once a rank has set it, is the error that ends the waits of all.
  struct Failure {
    /// Not told yet.
    explicit Failure(std::string key) : key(std::move(key)) {}
    const std::string key;           ///< whole
    std::atomic<bool> told = false;  ///< to this rank
  };

  /// All keys are below `prefix`. Calls that are given no deadline have the store's own (within()), or as long as the
  /// connection was given.
  explicit Store(std::shared_ptr<StoreConnection> connection, std::string prefix = "");

  /// Sets a key to a value, over an older one.
  void set(const std::string& key, const std::string& value);
  /// The same, by a deadline.
  void set(const std::string& key, const std::string& value, const Deadline& deadline);
  /// Takes the key away again; one that is not there stays so.
  void remove(const std::string& key);
  /// Adds to the number that a key holds, 0 at first; returns the sum.
  int64_t add(const std::string& key, int64_t amount);
  /// Whether the key is there.
  bool has(const std::string& key);
  /// Whether the key is there, for whoever has better things to wait for: nothing when the store has not answered by the
  /// deadline.
  std::optional<bool> has(const std::string& key, const Deadline& deadline);

  /// Waits until the key is there. `what` says in the error what was waited for.
  std::string get(const std::string& key, const Deadline& deadline, const std::string& what);

  /// This store, whose get() also ends with the failure's text as its error.
  Store failing_on(std::shared_ptr<Failure> failure) const;
  /// Sets the failure, with the number of the rank where one was lost; a rank that has been told already tells nothing.
  void announce(const Error& error);
  /// Throws the failure if it has been set. For whoever fails without waiting: a peer may have left because of it.
  void throw_if_failed();
  /// This store with every key below `prefix`.
  Store below(const std::string& prefix) const;

  /// This store, whose calls all end by the deadline.
  Store within(const Deadline& deadline) const;
  /// This store, with the table of who waits for whom.
  Store with(std::shared_ptr<RankTable> table) const;
  /// That table, where there is one.
  const std::shared_ptr<RankTable>& table() const { return table_; }

  /// What all keys are below.
  const std::string& prefix() const { return prefix_; }
  /// What it asks.
  StoreConnection& connection() const { return *connection_; }
  /// Who serves it: "rank 0", "the launcher".
  const std::string& server() const;

 private:
  Deadline deadline() const;
  void throw_if(const std::optional<std::string>& failure);

  std::shared_ptr<StoreConnection> connection_;
  std::string prefix_;
  std::shared_ptr<Failure> failure_;
  std::shared_ptr<RankTable> table_;
  std::optional<Deadline> deadline_;
};

}  // namespace weft
