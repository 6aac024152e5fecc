#include "weft/launch/restarts.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/monotonic.h"
#include "weft/base/run_board.h"
#include "weft/base/stopwatch.h"
#include "weft/base/units.h"
#include "weft/launch/hosts.h"
#include "weft/launch/run_status.h"
#include "weft/launch/signal_watch.h"

namespace weft {
namespace {

std::string after_step(int64_t steps) {
  return steps > 0 ? fmt::format("after step {}", steps) : "before its first step was done";
}

/// A run, from its first start to its last end.
class Run {
 public:
  Run(LaunchOptions options, const RestartOptions& restarts)
      : options_(std::move(options)),
        restarts_(restarts),
        alone_(options_.hosts == nullptr ? this_host_alone() : nullptr),
        hosts_(alone_ ? *alone_ : *options_.hosts),
        own_signals_(options_.signals == nullptr ? std::make_unique<SignalWatch>() : nullptr),
        signals_(own_signals_ ? *own_signals_ : *options_.signals),
        board_(restarts.keeps_state ? restarts.limits.most_ranks : 0),
        rules_(restarts.limits),
        grow_after_s_(restarts.grow_after_s) {
    options_.num_ranks = 0;  // none has been started
    const std::vector<int> descriptors = board_.descriptors();
    options_.inherited.insert(options_.inherited.end(), descriptors.begin(), descriptors.end());
    options_.environment.push_back(board_.environment());
    options_.board = &board_;
    options_.signals = &signals_;
  }

  LaunchOutcome run();

 private:
  int gather();
  /// Ranks that may be started where there is room for so many.
  int room_within(int capacity) {
    rules_.set_least(hosts_.least_capacity());
    return rules_.most_within(capacity);
  }
  bool asks_to_stop(const Stopwatch& running, bool& grows);
  int pause(double seconds);
  /// After which step, as a line begins; nothing where nobody told of any.
  std::string when() const {
    return restarts_.counts_steps || board_.steps_done() > 0 ? after_step(board_.steps_done()) + ": " : "";
  }
  void show_steps() {
    if (options_.status != nullptr) options_.status->set_steps(board_.steps_done());
  }

  LaunchOptions options_;
  const RestartOptions& restarts_;
  std::unique_ptr<Hosts> alone_;
  Hosts& hosts_;
  /// One for the whole run: a signal that comes between two launches must not end this process before its hosts are told.
  std::unique_ptr<SignalWatch> own_signals_;
  SignalWatch& signals_;
  RunBoard board_;
  RestartRules rules_;
  double grow_after_s_;
};

LaunchOutcome interrupted_by(int signal) {
  return {.status = 128 + signal, .error = fmt::format("ended by {}", signal_text(signal)), .interrupted = true};
}

/// Waits for hosts; the signal that came instead, or 0.
int Run::gather() {
  const bool is_first = options_.num_ranks == 0;
  const int signal = hosts_.gather(signals_, [&](int capacity) { return is_first ? capacity > 0 : room_within(capacity) > 0; });
  if (signal != 0) return signal;
  const int most = room_within(hosts_.capacity());
  if (most == 0) {
    if (restarts_.check) restarts_.check(hosts_.capacity());
    throw InputError(fmt::format("the hosts bear {}, which are too few, or no number that the batch and the layout allow",
                                 counted(hosts_.capacity(), "rank")));
  }
  rules_.start_within(most);
  return 0;
}

bool Run::asks_to_stop(const Stopwatch& running, bool& grows) {
  show_steps();
  if (options_.stopped_status == 0 || running.seconds() < grow_after_s_) return false;
  if (const int most = room_within(hosts_.capacity()); most > rules_.ranks()) rules_.bound(most);
  grows = rules_.is_smaller();
  if (grows) board_.set_growing(true);
  return grows;
}

/// The signal that came meanwhile, which ends the run, or 0. Hosts are heard.
int Run::pause(double seconds) {
  const Stopwatch waited;
  while (true) {
    for (const int signal : signals_.receive()) return signal;
    for (const HostSignal& signal : hosts_.signals()) return signal.number;
    const double left = seconds - waited.seconds();
    if (left <= 0.0) return 0;
    std::vector<pollfd> ready = {{signals_.fd(), POLLIN, 0}};
    hosts_.add_descriptors(ready);
    poll(ready.data(), ready.size(), static_cast<int>(std::min(left, 0.2) * 1000.0) + 1);
    hosts_.receive();
  }
}

LaunchOutcome Run::run() {
  while (true) {
    if (const int signal = gather()) return interrupted_by(signal);
    options_.num_ranks = rules_.ranks();
    board_.begin_launch();
    board_.set_growing(false);
    const Stopwatch running;
    bool grows = false;
    options_.ask_to_stop = [&] { return asks_to_stop(running, grows); };
    LaunchOutcome outcome = launch_once(options_);
    show_steps();
    const bool stopped = options_.stopped_status != 0 && outcome.status == options_.stopped_status;
    if (stopped && grows && !outcome.interrupted) {
      rules_.grow();
      grow_after_s_ *= 2.0;
      board_.set_failed_ns(monotonic_ns());
      restarts_.tell(
          fmt::format("{}, saved: trying {} again", after_step(board_.steps_done()), counted(rules_.ranks(), "rank")));
      continue;
    }
    if (outcome.status == 0 || outcome.interrupted || stopped) return outcome;
    board_.set_failed_ns(monotonic_ns());
    const RestartDecision decision = rules_.failed(board_.steps_done());
    if (!decision.again) {
      if (!decision.why.empty()) outcome.error += "; not started again: " + decision.why;
      return outcome;
    }
    if (options_.status != nullptr) options_.status->set_restarting(rules_.restarts());
    const int room = room_within(hosts_.capacity());
    if (room > 0) rules_.start_within(room);
    const int ranks = rules_.ranks();
    restarts_.tell(
        fmt::format("{}{}; restart {} of {}{}{}{}", when(), outcome.error, rules_.restarts(), restarts_.limits.restarts,
                    ranks != options_.num_ranks || rules_.is_smaller() ? fmt::format(" on {}", counted(ranks, "rank")) : "",
                    decision.pause_s > 0.0 ? " in " + format_duration(decision.pause_s) : "",
                    room == 0 ? ", once the host or another in its place is there" : ""));
    if (pause(decision.pause_s) != 0) return outcome;
  }
}

}  // namespace

LaunchOutcome launch_again(LaunchOptions options, const RestartOptions& restarts) {
  return Run(std::move(options), restarts).run();
}

}  // namespace weft
