// RankMeeting: what the ranks of a world tell one another about a save or a load, in the store, from any thread.
//
// It shows in no table of who waits for whom: a save goes on beside training, whose waits are the ones to blame a rank for.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "weft/comm/store/store.h"
#include "weft/comm/world.h"

namespace weft {

/// One meeting. Making it is for the thread that makes groups, on all ranks in the same order.
class RankMeeting {
 public:
  /// `doing` names it in errors: "saving". Waits end with CommError after `timeout`; after `stopped`, if that is shorter, for a
  /// rank that stands still by a signal.
  RankMeeting(const World& world, std::string doing, std::chrono::milliseconds timeout,
              std::chrono::milliseconds stopped = std::chrono::hours(1));

  int rank() const { return rank_; }  ///< this one
  int size() const { return size_; }  ///< all

  /// Tells all ranks; a world of one tells nobody.
  void tell(const std::string& key, const std::string& value);
  /// What `rank` told or will tell under the key. Throws CommError where that rank has ended or failed, or with the text of
  /// fail(), and Error once give_up() was called.
  std::string wait_for(const std::string& key, int rank);
  /// The same, which nobody else will ask for.
  std::string take(const std::string& key, int rank);
  /// Tells all ranks that it came to nothing, and why.
  void fail(const std::string& why);
  /// Throws where a rank has told so, or give_up() was called.
  void check();
  /// Ends the waits of other threads of this rank.
  void give_up() { given_up_ = true; }

  /// Rank 0's value, on all ranks.
  std::string of_rank_zero(const std::string& value);
  /// Whether it went well on all ranks, in the end: each tells its own error, "" for none; returns the first one, by rank.
  std::string verdict(const std::string& own);

 private:
  /// For what is there: the store may be served by a rank that stands still.
  Deadline to_answer() const { return std::min(timeout_, stopped_); }
  bool has(const std::string& key);
  void look(const std::string& key, int rank);
  void wait_until_heard();

  int rank_;
  int size_;
  std::string doing_;
  std::chrono::milliseconds timeout_, stopped_;
  std::optional<Store> store_;
  std::atomic<bool> given_up_ = false;
};

}  // namespace weft
