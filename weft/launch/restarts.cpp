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

std::string after_step(int64_t steps) { return steps > 0 ? fmt::format("after step {}", steps) : "before its first step"; }

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
    options_.num_ranks = 0;  // not started yet
    const std::vector<int> descriptors = board_.descriptors();
    options_.inherited.insert(options_.inherited.end(), descriptors.begin(), descriptors.end());
    options_.environment.push_back(board_.environment());
    options_.board = &board_;
    options_.signals = &signals_;
    options_.report = restarts_.report;
  }

  LaunchOutcome run();

 private:
  int gather();
  /// Number of ranks that can be started within the capacity; nullopt: not known yet.
  std::optional<int> room_within(int capacity) {
    rules_.set_least(hosts_.least_capacity());
    return rules_.most_within(capacity);
  }
  bool asks_to_stop(const Stopwatch& running, bool& grows);
  int pause(double seconds);
  int hear_until(const std::function<bool()>& is_over);
  LaunchOutcome save_snapshot(int signal, LaunchOutcome outcome);
  LaunchOutcome ended_before_restart(int signal, const LaunchOutcome& failed);
  std::optional<LaunchOutcome> prepare_restart(LaunchOutcome outcome, double alive_s);
  /// The current step as the start of a line; empty if no steps were reported.
  std::string when() const {
    return restarts_.counts_steps || board_.steps_done() > 0 ? after_step(board_.steps_done()) + ": " : "";
  }
  void show_steps() {
    if (options_.status == nullptr) return;
    options_.status->set_steps(board_.steps_done());
    options_.status->set_figures(board_.figures());
  }

  LaunchOptions options_;
  const RestartOptions& restarts_;
  std::unique_ptr<Hosts> alone_;
  Hosts& hosts_;
  /// One for the whole run: a signal between two launches must not end this process before its hosts are notified.
  std::unique_ptr<SignalWatch> own_signals_;
  SignalWatch& signals_;
  RunBoard board_;
  RestartRules rules_;
  double grow_after_s_;
};

/// Waits for hosts; returns a signal that came instead, or 0.
int Run::gather() {
  const bool is_first = options_.num_ranks == 0;
  const auto enough = [&](int capacity) -> std::optional<bool> {
    if (is_first) return capacity > 0;
    const std::optional<int> room = room_within(capacity);
    return room ? std::optional(*room > 0) : std::nullopt;
  };
  if (const int signal = hosts_.gather(signals_, enough)) return signal;
  std::optional<int> most;
  if (const int signal = hear_until([&] { return (most = room_within(hosts_.capacity())).has_value(); })) return signal;
  if (*most == 0) {
    if (restarts_.check) restarts_.check(hosts_.capacity());
    throw InputError(fmt::format("the hosts have room for {}: too few, or a number that batch and layout do not allow",
                                 counted(hosts_.capacity(), "rank")));
  }
  rules_.start_within(*most);
  return 0;
}

bool Run::asks_to_stop(const Stopwatch& running, bool& grows) {
  show_steps();
  if (options_.stopped_status == 0 || running.seconds() < grow_after_s_) return false;
  if (const int most = room_within(hosts_.capacity()).value_or(0); most > rules_.ranks()) rules_.bound(most);
  grows = rules_.is_smaller();
  if (grows) board_.set_growing(true);
  return grows;
}

/// Keeps receiving from hosts until `is_over`. Returns a signal that came meanwhile and ends the run, or 0.
int Run::hear_until(const std::function<bool()>& is_over) {
  constexpr int kLook_ms = 20;
  while (true) {
    for (const int signal : signals_.receive()) return signal;
    for (const HostSignal& signal : hosts_.signals()) return signal.number;
    if (is_over()) return 0;
    std::vector<pollfd> ready = {{signals_.fd(), POLLIN, 0}};
    hosts_.add_descriptors(ready);
    poll(ready.data(), ready.size(), kLook_ms);
    hosts_.receive();
  }
}

int Run::pause(double seconds) {
  const Stopwatch waited;
  return hear_until([&] { return waited.seconds() >= seconds; });
}

/// If a signal ends the ranks, or comes between two launches, while the newest state is only in memory: starts ranks once more
/// to save it. Returns their outcome, or `outcome` if there is nothing to save.
LaunchOutcome Run::save_snapshot(int signal, LaunchOutcome outcome) {
  const int64_t step = board_.newest_copy();
  if (options_.stopped_status == 0 || step <= board_.saved_step()) return outcome;
  restarts_.report(fmt::format("{}: the state after step {} is only in memory; starting {} to save it", signal_text(signal),
                               step, counted(rules_.ranks(), "rank")));
  options_.num_ranks = rules_.ranks();
  options_.interrupted = signal;
  options_.ask_to_stop = {};
  board_.begin_launch();
  board_.set_growing(false);
  board_.set_stopping(true);
  return launch_once(options_);
}

LaunchOutcome Run::ended_before_restart(int signal, const LaunchOutcome& failed) {
  LaunchOutcome ended = interrupted_by(signal);
  ended.error = fmt::format("{}; {} before it was restarted", failed.error, ended.error);
  return save_snapshot(signal, std::move(ended));
}

/// Returns the outcome that ends the run, or nothing once the next start is due. `alive_s`: RestartRules::failed().
std::optional<LaunchOutcome> Run::prepare_restart(LaunchOutcome outcome, double alive_s) {
  board_.set_failed_ns(monotonic_ns());
  if (const int signal = hear_until([&] { return rules_.can_decide(board_.steps_done(), alive_s); })) {
    return ended_before_restart(signal, outcome);
  }
  const RestartDecision decision = rules_.failed(board_.steps_done(), alive_s);
  if (!decision.again) {
    if (!decision.why.empty()) outcome.error += "; not restarted: " + decision.why;
    return outcome;
  }
  if (options_.status != nullptr) options_.status->set_restarting(rules_.restarts());
  std::optional<int> room;
  if (const int signal = hear_until([&] { return (room = room_within(hosts_.capacity())).has_value(); })) {
    return ended_before_restart(signal, outcome);
  }
  if (*room > 0) rules_.start_within(*room);
  const int ranks = rules_.ranks();
  restarts_.report(
      fmt::format("{}{}; restart {} of {}{}{}{}", when(), outcome.error, rules_.restarts(), restarts_.limits.restarts,
                  ranks != options_.num_ranks || rules_.is_smaller() ? fmt::format(" on {}", counted(ranks, "rank")) : "",
                  decision.pause_s > 0.0 ? " in " + format_duration(decision.pause_s) : "",
                  *room == 0 ? ", once the host or a replacement has joined" : ""));
  if (const int signal = pause(decision.pause_s)) return ended_before_restart(signal, outcome);
  return std::nullopt;
}

LaunchOutcome Run::run() {
  while (true) {
    if (const int signal = gather()) return save_snapshot(signal, interrupted_by(signal));
    options_.num_ranks = rules_.ranks();
    board_.begin_launch();
    board_.set_growing(false);
    const Stopwatch running;
    bool grows = false;
    options_.ask_to_stop = [&] { return asks_to_stop(running, grows); };
    LaunchOutcome outcome = launch_once(options_);
    show_steps();
    const bool stopped = outcome.is_well && outcome.status == options_.stopped_status;
    if (stopped && grows && !outcome.interrupted) {
      rules_.grow();
      grow_after_s_ *= 2.0;
      if (options_.status != nullptr) options_.status->set_restarting(rules_.restarts());
      board_.set_failed_ns(monotonic_ns());
      restarts_.report(
          fmt::format("{}, saved: trying {} again", after_step(board_.steps_done()), counted(rules_.ranks(), "rank")));
      continue;
    }
    if (outcome.status == 0 || outcome.is_well) return outcome;
    if (outcome.interrupted) return outcome.at_once ? outcome : save_snapshot(outcome.interrupted, outcome);
    const double alive_s = restarts_.counts_steps ? 0.0 : running.seconds();
    if (const std::optional<LaunchOutcome> end = prepare_restart(std::move(outcome), alive_s)) return *end;
  }
}

}  // namespace

LaunchOutcome launch_again(LaunchOptions options, const RestartOptions& restarts) {
  return Run(std::move(options), restarts).run();
}

}  // namespace weft
