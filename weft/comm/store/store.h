// Store: strings under keys that all ranks of a world share, for rendezvous and for creating groups; not for bulk data.
//
// Cheap to copy: copies share one connection. Every call ends by its deadline, even if the store does not answer (its server is
// stopped, or the network drops packets), with a CommError that names the awaited key. A call to a weft store takes one trip
// (request and answer), even a wait for one key or for the values of all ranks, and never blocks other threads from the store.
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

/// String values under keys, shared by all ranks of a world.
class Store {
 public:
  /// A key whose value, once a rank has set it, is the error that ends all ranks' waits.
  struct Failure {
    /// Initially not known.
    explicit Failure(std::string key) : key(std::move(key)) {}
    const std::string key;            ///< with its prefix
    std::atomic<bool> known = false;  ///< this rank knows the failure
  };

  /// All keys are below `prefix`. Calls without a deadline use the store's own (within()) or the connection's timeout.
  explicit Store(std::shared_ptr<StoreConnection> connection, std::string prefix = "");

  /// Sets a key, replacing an older value.
  void set(const std::string& key, const std::string& value);
  /// The same, by a deadline.
  void set(const std::string& key, const std::string& value, const Deadline& deadline);
  /// Removes the key, if it exists.
  void remove(const std::string& key);
  /// Adds to the number under a key, initially 0; returns the sum.
  int64_t add(const std::string& key, int64_t amount);
  /// Returns whether the key exists.
  bool has(const std::string& key);
  /// Returns whether the key exists, or nullopt if the store has not answered by the deadline.
  std::optional<bool> has(const std::string& key, const Deadline& deadline);

  /// Sets the key if it does not exist; returns its value, whoever set it.
  std::string set_once(const std::string& key, const std::string& value);

  /// Waits until the key exists and returns its value. `what` describes the wait in errors.
  std::string get(const std::string& key, const Deadline& deadline, const std::string& what);
  /// The same for several keys.
  std::vector<std::string> get_all(const std::vector<std::string>& keys, const Deadline& deadline, const std::string& what);
  /// Waits until the key exists, checking `watch` meanwhile; the caller handles failure. Ends with came, passed, called_off or
  /// silent.
  Waited await(const std::string& key, const Deadline& deadline, const Watch& watch);

  /// Contributes a value under a name and waits for the values of all `own.size` ranks; each name is used once. Ends like
  /// await(), or with failed if a rank expects a different size.
  Gathered gather(const Contribution& own, const Deadline& deadline, const Watch& watch = {});
  /// Returns the ranks missing from a gathering that this rank waits in.
  Gathered missing(const Contribution& own, const Deadline& deadline);

  /// Returns this store with waits that also end when the failure is set, and then throw its text.
  Store failing_on(std::shared_ptr<Failure> failure) const;
  /// Sets the failure, with the rank's number if one was lost; does nothing if this rank already knows a failure.
  void announce(const Error& error);
  /// Throws the failure if it has been set, for errors outside of a wait: a peer may have left because of it.
  void throw_if_failed();
  /// Returns this store with every key below `prefix`.
  Store below(const std::string& prefix) const;

  /// Returns this store with calls that all end by the deadline.
  Store within(const Deadline& deadline) const;
  /// Returns this store with the table of waiting ranks.
  Store with(std::shared_ptr<RankTable> table) const;
  /// Table of waiting ranks, if set.
  const std::shared_ptr<RankTable>& table() const { return table_; }

  /// Prefix of all keys.
  const std::string& prefix() const { return prefix_; }
  /// Underlying connection.
  StoreConnection& connection() const { return *connection_; }
  /// Name of its server: "rank 0", "the launcher".
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
