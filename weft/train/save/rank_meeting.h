// RankMeeting: messages between the ranks of a world about a save or a load, through the store, from any thread.
//
// Its waits are not listed in a wait table: a save overlaps training, whose own waits decide which rank to blame.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "weft/comm/store/store.h"
#include "weft/comm/world.h"

namespace weft {

/// One meeting. Construct it on the thread that makes groups, on all ranks in the same order.
class RankMeeting {
 public:
  /// `doing` names it in errors: "saving". Waits end with CommError after `timeout`; for a rank stopped by a signal, after
  /// `stopped` if that is shorter.
  RankMeeting(const World& world, std::string doing, std::chrono::milliseconds timeout,
              std::chrono::milliseconds stopped = std::chrono::hours(1));

  int rank() const { return rank_; }  ///< this rank
  int size() const { return size_; }  ///< number of ranks

  /// Sends to all ranks; does nothing in a world of one.
  void send(const std::string& key, const std::string& value);
  /// Waits for the value that `rank` sent under the key, and returns it. Throws CommError if that rank has ended or failed, or
  /// with the text of fail(), and Error after give_up().
  std::string wait_for(const std::string& key, int rank);
  /// The same, but removes the value from the store: no other rank may read it.
  std::string take(const std::string& key, int rank);
  /// Reports failure, and its reason, to all ranks.
  void fail(const std::string& why);
  /// Throws if a rank reported failure, or after give_up().
  void check();
  /// Ends the waits of other threads of this rank.
  void give_up() { given_up_ = true; }

  /// Returns rank 0's value on all ranks. Waits for it end after `timeout` if that is given.
  std::string of_rank_zero(const std::string& value, std::optional<std::chrono::milliseconds> timeout = {});
  /// Collects final results: each rank gives its own error, "" for success; returns the first error by rank. Waits for a rank
  /// end after `timeout` if that is given.
  std::string verdict(const std::string& own, std::optional<std::chrono::milliseconds> timeout = {});

 private:
  /// Deadline of the store's own answers: a signal may have stopped its server.
  Deadline to_answer() const { return std::min(timeout_, stopped_); }
  /// The store for one question or several: all of them by that deadline. If it does not answer they throw CommError.
  Store answering() const { return store_->within(to_answer()); }
  void throw_if_failed(Store store);
  std::string wait_for(const std::string& key, int rank, std::chrono::milliseconds timeout);
  void look(const std::string& key, int rank, std::chrono::milliseconds timeout);
  void wait_until_heard();

  int rank_;
  int size_;
  std::string doing_;
  std::chrono::milliseconds timeout_, stopped_;
  std::optional<Store> store_;
  std::atomic<bool> given_up_ = false;
};

}  // namespace weft
