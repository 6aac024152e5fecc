#include "weft/launch/restarts.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <memory>

#include "weft/base/monotonic.h"
#include "weft/base/run_board.h"
#include "weft/base/stopwatch.h"
#include "weft/base/units.h"
#include "weft/launch/signal_watch.h"

namespace weft {
namespace {

std::string after_step(int64_t steps) {
  return steps > 0 ? fmt::format("after step {}", steps) : "before its first step was done";
}

/// False where a signal came meanwhile, which ends the run.
bool pause(double seconds) {
  if (seconds <= 0.0) return true;
  SignalWatch signals;
  pollfd ready = {signals.fd(), POLLIN, 0};
  const Stopwatch waited;
  while (waited.seconds() < seconds) {
    poll(&ready, 1, static_cast<int>((seconds - waited.seconds()) * 1000.0) + 1);
    if (!signals.receive().empty()) return false;
  }
  return true;
}

}  // namespace

LaunchOutcome launch_again(LaunchOptions options, const RestartOptions& restarts) {
  RestartRules rules(restarts.limits);
  RunBoard board(restarts.keeps_state ? restarts.limits.most_ranks : 0);
  const std::vector<int> descriptors = board.descriptors();
  options.inherited.insert(options.inherited.end(), descriptors.begin(), descriptors.end());
  options.environment.push_back(board.environment());
  double grow_after_s = restarts.grow_after_s;
  while (true) {
    options.num_ranks = rules.ranks();
    board.begin_launch();
    board.set_growing(false);
    const Stopwatch running;
    bool grows = false;
    options.ask_to_stop = [&] {
      grows = options.stopped_status != 0 && rules.is_smaller() && running.seconds() >= grow_after_s;
      if (grows) board.set_growing(true);
      return grows;
    };
    LaunchOutcome outcome = launch_once(options);
    const bool stopped = options.stopped_status != 0 && outcome.status == options.stopped_status;
    if (stopped && grows && !outcome.interrupted) {
      rules.grow();
      grow_after_s *= 2.0;
      board.set_failed_ns(monotonic_ns());
      restarts.tell(fmt::format("{}, saved: trying {} again", after_step(board.steps_done()), counted(rules.ranks(), "rank")));
      continue;
    }
    if (outcome.status == 0 || outcome.interrupted || stopped) return outcome;
    board.set_failed_ns(monotonic_ns());
    const RestartDecision decision = rules.failed(board.steps_done());
    if (!decision.again) {
      if (!decision.why.empty()) outcome.error += "; not started again: " + decision.why;
      return outcome;
    }
    restarts.tell(fmt::format(
        "{}: {}; restart {} of {}{}{}", after_step(board.steps_done()), outcome.error, rules.restarts(),
        restarts.limits.restarts,
        decision.ranks < options.num_ranks || rules.is_smaller() ? fmt::format(" on {}", counted(decision.ranks, "rank")) : "",
        decision.pause_s > 0.0 ? " in " + format_duration(decision.pause_s) : ""));
    if (!pause(decision.pause_s)) return outcome;
  }
}

}  // namespace weft
