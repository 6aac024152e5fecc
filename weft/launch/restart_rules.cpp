#include "weft/launch/restart_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "weft/base/units.h"

namespace weft {
namespace {

constexpr double kFirstPause = 0.5, kLongestPause = 60.0;

}  // namespace

RestartRules::RestartRules(RestartLimits limits)
    : limits_(std::move(limits)),
      least_(limits_.least_ranks),
      bound_(limits_.most_ranks > 0 ? limits_.most_ranks : INT_MAX),
      ranks_(bound_) {}

void RestartRules::set_least(int least_ranks) {
  if (limits_.least_ranks == 0) least_ = least_ranks;
}

std::optional<int> RestartRules::most_within(int capacity) const {
  const int most = limits_.most_ranks > 0 ? limits_.most_ranks : INT_MAX;
  for (int ranks = std::min(capacity, most); ranks >= std::max(least_, 1); --ranks) {
    if (ranks == limits_.most_ranks || !limits_.fits) return ranks;
    const std::optional<bool> fits = limits_.fits(ranks);
    if (!fits) return std::nullopt;
    if (*fits) return ranks;
  }
  return 0;
}

std::optional<int> RestartRules::fewer() const { return most_within(ranks_ - 1); }

void RestartRules::grow() {
  ranks_ = bound_;
  same_ = 0;
  has_shrunk_ = false;
}

void RestartRules::bound(int most_ranks) {
  bound_ = most_ranks;
  ranks_ = std::min(ranks_, bound_);
}

void RestartRules::start_within(int most_ranks) {
  bound(most_ranks);
  if (!has_shrunk_) ranks_ = bound_;
}

bool RestartRules::can_decide(int64_t steps_done, double alive_s) const {
  const bool again_at_that_step = !is_progress(steps_done, alive_s) && same_ > 0;
  return restarts_ == limits_.restarts || !again_at_that_step || fewer().has_value();
}

bool RestartRules::is_progress(int64_t steps_done, double alive_s) const {
  return steps_done != last_ || alive_s >= kLongestPause;
}

RestartDecision RestartRules::failed(int64_t steps_done, double alive_s) {
  const bool progress = is_progress(steps_done, alive_s);
  last_ = steps_done;
  same_ = progress ? 1 : same_ + 1;
  in_vain_ = progress ? 1 : in_vain_ + 1;
  if (progress) {  // a lost device may be back
    ranks_ = bound_;
    has_shrunk_ = false;
  }
  if (restarts_ == limits_.restarts) {
    return {.again = false,
            .why = limits_.restarts == 0 ? "" : fmt::format("{} used up", counted(limits_.restarts, "restart"))};
  }
  if (same_ > 1) {
    if (const int smaller = fewer().value_or(0); smaller > 0) {
      ranks_ = smaller;
      has_shrunk_ = true;
      same_ = 0;
    } else if (same_ >= limits_.most_in_vain) {
      return {.again = false, .why = fmt::format("it failed {} times after step {} without progress", in_vain_, last_)};
    }
  }
  ++restarts_;
  double pause = in_vain_ > 1 ? kFirstPause : 0.0;
  for (int i = 2; i < in_vain_; ++i) pause = std::min(2.0 * pause, kLongestPause);
  return {.again = true, .ranks = ranks_, .pause_s = pause};
}

}  // namespace weft
