// Decides whether a failed run is restarted, on how many ranks and after which pause. Pure, so that every sequence of failures
// can be tested.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace weft {

/// Limits on restarts.
struct RestartLimits {
  int restarts = 0;      ///< in total; 0: never restart
  int least_ranks = 1;   ///< fewest ranks that the run continues on; 0: set by set_least()
  int most_ranks = 1;    ///< ranks that it starts on; 0: as many as there is room for
  int most_in_vain = 3;  ///< failures at one step, on the fewest ranks, that end the run
  /// Returns whether the run can be laid out on that many ranks; nullopt: not known yet. Empty: it always can.
  std::function<std::optional<bool>(int ranks)> fits = {};
};

/// What to do about a failure.
struct RestartDecision {
  bool again = false;    ///< restart the run
  int ranks = 0;         ///< on this many ranks
  double pause_s = 0.0;  ///< after this pause
  std::string why = {};  ///< why not to restart
};

/// Decides after each failure. Failures after the same step count as the same failure: the second one reduces the ranks if
/// allowed (a device may be gone), the third on the fewest ranks ends the run, and each waits longer than the last. A failure
/// after another step restores all ranks. If steps are not reported, a start that lived for at least the longest wait (60 s)
/// also counts as progress.
class RestartRules {
 public:
  /// Starts with no failures.
  explicit RestartRules(RestartLimits limits);

  /// Returns true if failed() can decide now: it may need to know which numbers of ranks fit.
  bool can_decide(int64_t steps_done, double alive_s = 0.0) const;
  /// Decides about a failure after `steps_done` steps of the run, of a start that lived for `alive_s` seconds; 0: only steps
  /// count as progress.
  RestartDecision failed(int64_t steps_done, double alive_s = 0.0);
  int ranks() const { return ranks_; }        ///< current number of ranks
  int restarts() const { return restarts_; }  ///< so far
  /// Returns true if more ranks may be tried than the run has now; see grow().
  bool is_smaller() const { return ranks_ < bound_; }
  /// Uses all ranks for the next start, which does not follow a failure.
  void grow();
  /// Sets the current fewest ranks, for limits that leave them open.
  void set_least(int least_ranks);
  /// Returns the largest allowed number of ranks within `capacity`; 0: no number fits; nullopt: not known yet.
  std::optional<int> most_within(int capacity) const;
  /// Limits the run to this many ranks, a result of most_within(), until called again.
  void bound(int most_ranks);
  /// Does the same before a start, which uses all these ranks unless failures at one step require fewer.
  void start_within(int most_ranks);

 private:
  std::optional<int> fewer() const;
  bool is_progress(int64_t steps_done, double alive_s) const;

  RestartLimits limits_;
  int least_;
  int bound_;  ///< current upper bound on the ranks
  int ranks_;
  int restarts_ = 0;
  int64_t last_ = -1;        ///< steps done at the last failure
  int same_ = 0;             ///< consecutive failures at that step, on these ranks
  int in_vain_ = 0;          ///< the same, on any number of ranks
  bool has_shrunk_ = false;  ///< because of such failures, without progress since
};

}  // namespace weft
