// Whether a run that failed is started again, on how many ranks and after which pause: pure, so that every course can be
// tested.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace weft {

/// What restarts are allowed.
struct RestartLimits {
  int restarts = 0;      ///< in all; 0: none
  int least_ranks = 1;   ///< that the run goes on with; 0: as set_least() says
  int most_ranks = 1;    ///< that it is started with; 0: as many as there is room for
  int most_in_vain = 3;  ///< failures at one step, on the fewest ranks, that end the run
  /// Whether the run can be laid out on so many; nothing: that is still being found. Empty: always.
  std::function<std::optional<bool>(int ranks)> fits = {};
};

/// What is done about a failure.
struct RestartDecision {
  bool again = false;    ///< start again
  int ranks = 0;         ///< on so many
  double pause_s = 0.0;  ///< after so long
  std::string why = {};  ///< why not
};

/// Decides, failure after failure. One after the same step as the one before counts as the same: the second of them takes fewer
/// ranks where that is allowed (a device may be gone), the third on the fewest ends the run, and each waits longer than the
/// last. After another failure on fewer ranks all are tried again. Where nobody tells of steps, a start that lived for as long
/// as the longest wait (60 s) has come further too.
class RestartRules {
 public:
  /// Nothing has failed yet.
  explicit RestartRules(RestartLimits limits);

  /// Whether failed() can decide yet: it may have to know which numbers of ranks fit.
  bool can_decide(int64_t steps_done, double alive_s = 0.0) const;
  /// After a failure with `steps_done` of the run behind it, of a start that lived for `alive_s`; 0: steps alone tell how far
  /// it came.
  RestartDecision failed(int64_t steps_done, double alive_s = 0.0);
  int ranks() const { return ranks_; }        ///< that the run has now
  int restarts() const { return restarts_; }  ///< so far
  /// Whether more ranks may be tried than the run has now; grow() does.
  bool is_smaller() const { return ranks_ < bound_; }
  /// Takes all ranks for the next start, which was not a failure's.
  void grow();
  /// Of limits that leave it open: the fewest ranks now.
  void set_least(int least_ranks);
  /// The most ranks, of those that are allowed, for which there is room; 0: none; nothing: that is still being found.
  std::optional<int> most_within(int capacity) const;
  /// There is room for so many now, one of most_within(): the run has no more, until there is.
  void bound(int most_ranks);
  /// The same before a start, which takes all of them, unless failures at one step have told to take fewer.
  void start_within(int most_ranks);

 private:
  std::optional<int> fewer() const;
  bool is_progress(int64_t steps_done, double alive_s) const;

  RestartLimits limits_;
  int least_;
  int bound_;  ///< ranks that there may be now
  int ranks_;
  int restarts_ = 0;
  int64_t last_ = -1;        ///< steps that were done at the last failure
  int same_ = 0;             ///< failures in a row at that step, on these ranks
  int in_vain_ = 0;          ///< on any
  bool has_shrunk_ = false;  ///< because of such failures, and not come further since
};

}  // namespace weft
