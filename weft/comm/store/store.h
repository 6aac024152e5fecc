// Store: strings under keys that all ranks of a world share, for meeting and for building groups; not for bulk data.
//
// A small value; copies share one connection. Every call has a deadline, also where the store does not answer (whoever serves
// it is stopped, or behind a network that swallows packets); then a CommError names what was waited for. A call is one trip to
// a store of weft's, also one that waits, for one key or for what all ranks bring; it keeps no other thread from the store.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/comm/store/waited.h"

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

  /// Sets the key where it is not there; its value then, by whomever.
  std::string set_once(const std::string& key, const std::string& value);

  /// Waits until the key is there. `what` says in the error what was waited for.
  std::string get(const std::string& key, const Deadline& deadline, const std::string& what);
  /// The same for all of these keys.
  std::vector<std::string> get_all(const std::vector<std::string>& keys, const Deadline& deadline, const std::string& what);
  /// Waits until the key is there, for whoever looks about meanwhile and knows better what to make of waiting in vain: ends
  /// with came, passed, called_off or silent.
  Waited await(const std::string& key, const Deadline& deadline, const Watch& watch);

  /// Brings a value under a name and waits for those that all other ranks bring, `own.size` of them with this one; each rank
  /// once a name. Ends as await() does, or with failed where a rank counts another number of them.
  Gathered gather(const Contribution& own, const Deadline& deadline, const Watch& watch = {});
  /// Who has not come to a gathering that this rank waits in.
  Gathered missing(const Contribution& own, const Deadline& deadline);

  /// This store, whose waits also end with the failure's text as its error.
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
  std::string failure_key() const { return failure_ ? failure_->key : ""; }
  void throw_if(const std::optional<std::string>& failure);

  std::shared_ptr<StoreConnection> connection_;
  std::string prefix_;
  std::shared_ptr<Failure> failure_;
  std::shared_ptr<RankTable> table_;
  std::optional<Deadline> deadline_;
};

}  // namespace weft
