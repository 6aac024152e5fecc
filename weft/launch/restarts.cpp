#include "weft/launch/restarts.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <optional>
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
        board_(restarts.keeps_state ? restarts.limits.most_ranks : 0),
        grow_after_s_(restarts.grow_after_s) {
    const std::vector<int> descriptors = board_.descriptors();
    options_.inherited.insert(options_.inherited.end(), descriptors.begin(), descriptors.end());
    options_.environment.push_back(board_.environment());
    options_.board = &board_;
  }

  LaunchOutcome run();

 private:
  int gather();
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
  RunBoard board_;
  std::optional<RestartRules> rules_;
  double grow_after_s_;
};

LaunchOutcome interrupted_by(int signal) {
  return {.status = 128 + signal, .error = fmt::format("ended by {}", signal_text(signal)), .interrupted = true};
}

/// Waits for hosts; the signal that came instead, or 0.
int Run::gather() {
  if (!rules_) {
    if (const int signal = hosts_.gather([](int capacity) { return capacity > 0; })) return signal;
    RestartLimits limits = restarts_.limits;
    if (limits.most_ranks == 0) limits.most_ranks = hosts_.capacity();
    if (limits.least_ranks == 0) limits.least_ranks = limits.most_ranks;
    rules_.emplace(std::move(limits));
  } else if (const int signal = hosts_.gather([this](int capacity) { return rules_->most_within(capacity) > 0; })) {
    return signal;
  }
  const int most = rules_->most_within(hosts_.capacity());
  if (most == 0) {
    throw InputError(fmt::format("the hosts bear {}, which are too few, or no number that the batch and the layout allow",
                                 counted(hosts_.capacity(), "rank")));
  }
  rules_->bound(most);
  return 0;
}

bool Run::asks_to_stop(const Stopwatch& running, bool& grows) {
  show_steps();
  if (options_.stopped_status == 0 || running.seconds() < grow_after_s_) return false;
  if (const int most = rules_->most_within(hosts_.capacity()); most > rules_->ranks()) rules_->bound(most);
  grows = rules_->is_smaller();
  if (grows) board_.set_growing(true);
  return grows;
}

/// The signal that came meanwhile, which ends the run, or 0. Hosts are heard.
int Run::pause(double seconds) {
  if (seconds <= 0.0) return 0;
  SignalWatch signals;
  const Stopwatch waited;
  while (waited.seconds() < seconds) {
    std::vector<pollfd> ready = {{signals.fd(), POLLIN, 0}};
    hosts_.add_descriptors(ready);
    poll(ready.data(), ready.size(), static_cast<int>(std::min(seconds - waited.seconds(), 0.2) * 1000.0) + 1);
    hosts_.receive();
    for (const int signal : signals.receive()) return signal;
    for (const HostSignal& signal : hosts_.signals()) return signal.number;
  }
  return 0;
}

LaunchOutcome Run::run() {
  while (true) {
    if (const int signal = gather()) return interrupted_by(signal);
    options_.num_ranks = rules_->ranks();
    board_.begin_launch();
    board_.set_growing(false);
    const Stopwatch running;
    bool grows = false;
    options_.ask_to_stop = [&] { return asks_to_stop(running, grows); };
    LaunchOutcome outcome = launch_once(options_);
    show_steps();
    const bool stopped = options_.stopped_status != 0 && outcome.status == options_.stopped_status;
    if (stopped && grows && !outcome.interrupted) {
      rules_->grow();
      grow_after_s_ *= 2.0;
      board_.set_failed_ns(monotonic_ns());
      restarts_.tell(
          fmt::format("{}, saved: trying {} again", after_step(board_.steps_done()), counted(rules_->ranks(), "rank")));
      continue;
    }
    if (outcome.status == 0 || outcome.interrupted || stopped) return outcome;
    board_.set_failed_ns(monotonic_ns());
    const RestartDecision decision = rules_->failed(board_.steps_done());
    if (!decision.again) {
      if (!decision.why.empty()) outcome.error += "; not started again: " + decision.why;
      return outcome;
    }
    if (options_.status != nullptr) options_.status->set_restarting(rules_->restarts());
    const int room = rules_->most_within(hosts_.capacity());
    const int ranks = room > 0 ? std::min(room, decision.ranks) : decision.ranks;
    restarts_.tell(
        fmt::format("{}{}; restart {} of {}{}{}{}", when(), outcome.error, rules_->restarts(), restarts_.limits.restarts,
                    ranks < options_.num_ranks || rules_->is_smaller() ? fmt::format(" on {}", counted(ranks, "rank")) : "",
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
