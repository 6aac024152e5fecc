#include "weft/launch/rank_watch.h"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/monotonic.h"
#include "weft/base/time_limit.h"
#include "weft/launch/unsaved_text.h"

namespace weft {

namespace {

constexpr int64_t kSecond = 1'000'000'000;
/// Time that a possible echo of another rank's failure waits for that failure to appear.
constexpr double kEcho_s = 0.25;
/// Time for ranks to write their records once another has failed, which they learn at once.
constexpr double kRecords_s = 1.0;
/// Time for ranks to say that they have waited for one whose host was lost.
constexpr double kToSpeak_s = 3.0;
/// A host that has been silent for this long (several heartbeats) may be the cause of errors on other hosts.
constexpr double kSilent_s = 1.5;
/// HostSignal::node for signals to this process.
constexpr int kOwnSignal = -1;

}  // namespace

void RankWatch::start() {
  ranks_ = hosts_.start(options_, signals_.old_mask());
  if (options_.interrupted == 0) return;
  interrupt_ = options_.interrupted;
  interrupt_ns_[kOwnSignal] = monotonic_ns();
  enter(Phase::interrupted, options_.interrupt_grace_s);
}

void RankWatch::watch() {
  while (any_left()) {
    wait();
    for (const int signal : signals_.receive()) on_signal({signal, kOwnSignal});
    receive();
    for (const HostSignal& signal : hosts_.signals()) on_signal(signal);
    judge();
    if (deadline_ns_ && monotonic_ns() >= *deadline_ns_) on_deadline();
    if (phase_ == Phase::running && options_.ask_to_stop && !has_asked_ && options_.ask_to_stop()) {
      has_asked_ = true;
      signal_all(SIGUSR1);
    }
  }
}

bool RankWatch::any_left() const {
  return std::any_of(ranks_.hosts.begin(), ranks_.hosts.end(), [](const auto& host) { return host->any_left(); });
}

void RankWatch::wait() {
  std::vector<pollfd> ready = {{signals_.fd(), POLLIN, 0}};
  hosts_.add_descriptors(ready);
  for (const auto& host : ranks_.hosts) host->add_descriptors(ready);
  if (poll(ready.data(), ready.size(), poll_timeout_ms()) < 0 && errno != EINTR) {
    throw Error(fmt::format("cannot wait for the ranks: {}", strerror(errno)));
  }
}

void RankWatch::receive() {
  hosts_.receive();
  for (const auto& host : ranks_.hosts) host->receive(phase_ > Phase::settling);
}

void RankWatch::signal_all(int number) {
  for (const auto& host : ranks_.hosts) host->signal(number, SignalTo::all);
}

void RankWatch::terminate() {
  for (const auto& host : ranks_.hosts) {
    host->signal(options_.end_signal != 0 ? options_.end_signal : SIGTERM, SignalTo::silent);
  }
  enter(Phase::terminating, options_.grace_s);
}

void RankWatch::enter(Phase phase, double seconds) {
  phase_ = phase;
  deadline_ns_ = monotonic_ns() + std::chrono::nanoseconds(time_limit(seconds)).count();
}

/// A cluster manager sends a signal to each host at a slightly different time, so only another one from the same host counts as
/// a second signal. For ranks that save, only a second Ctrl-C counts: SLURM sends SIGUSR1 and then SIGTERM, systemd SIGTERM and
/// then SIGHUP, and saving has its own deadline.
void RankWatch::on_signal(const HostSignal& signal) {
  const bool saves = options_.stopped_status != 0;
  const int64_t now = monotonic_ns();
  const auto before = interrupt_ns_.find(signal.node);
  const bool has_come = before != interrupt_ns_.end();
  if (has_come && now - before->second < kSamePress_ns) return;
  const bool counts = !saves || signal.number == SIGINT, again = has_come && counts;
  if (counts) interrupt_ns_[signal.node] = now;
  if (interrupt_ != 0 && !again) return;
  if (again || phase_ == Phase::terminating) {
    signal_all(SIGKILL);
    phase_ = Phase::killing;
    deadline_ns_.reset();
    at_once_ = again;
  } else if (phase_ != Phase::killing) {
    signal_all(signal.number);
    enter(Phase::interrupted, options_.interrupt_grace_s);
    const bool has_begun = options_.board != nullptr && options_.board->steps_done() > 0;
    if (saves && has_begun && signal.number == SIGINT && options_.report) options_.report(kSavingText);
  }
  interrupt_ = signal.number;
}

void RankWatch::on_deadline() {
  if (phase_ == Phase::settling && waits_for_a_silent_host()) return;  // it answers, or is given up
  deadline_ns_.reset();
  if (phase_ == Phase::settling) {
    terminate();
  } else {
    at_once_ = phase_ == Phase::interrupted;
    signal_all(SIGKILL);
    phase_ = Phase::killing;
  }
}

bool RankWatch::waits_for_a_silent_host() const {
  return std::any_of(ranks_.hosts.begin(), ranks_.hosts.end(),
                     [](const auto& host) { return host->any_left() && host->silent_s() > kSilent_s; });
}

void RankWatch::judge() {
  if (phase_ > Phase::settling) return;
  const Verdict verdict = find_culprit(outcomes());
  if (!verdict.failed) return;
  // Before the ranks end, because their waits end with them.
  const bool is_lost = !verdict.lost.empty();
  if (is_lost && waits_.empty() && options_.waits_for) waits_ = options_.waits_for(options_.num_ranks, verdict.lost);
  const bool leaves_time = options_.evidence_s > 0.0;
  if (leaves_time && phase_ == Phase::running) {
    const double most_s = verdict.killed ? options_.evidence_s : is_lost ? kToSpeak_s : kRecords_s;
    return enter(Phase::settling, std::min(options_.evidence_s, most_s));
  }
  if (verdict.certain && !(leaves_time && is_waiting_for_evidence(verdict))) {
    terminate();
  } else if (phase_ == Phase::running) {
    enter(Phase::settling, kEcho_s);
  }
}

/// After a rank was killed, or its host was lost, the others speak once all have left their evidence; after one has failed they
/// end by themselves.
bool RankWatch::is_waiting_for_evidence(const Verdict& verdict) const {
  if (!verdict.killed && verdict.lost.empty()) return true;
  const std::vector<RankOutcome> ranks = outcomes();
  return std::all_of(ranks.begin(), ranks.end(), [](const RankOutcome& rank) { return rank.said.empty(); });
}

// Limited, because neither a stopped rank nor LaunchOptions::ask_to_stop wakes poll().
int RankWatch::poll_timeout_ms() const {
  constexpr int64_t kLook = 500, kSoon = 50;
  if (!deadline_ns_) return kLook;
  const int64_t left = (*deadline_ns_ - monotonic_ns()) / 1'000'000 + 1;
  return static_cast<int>(std::clamp<int64_t>(left, left <= 0 ? kSoon : 0, kLook));
}

/// Returns the rank's exit status if it is one of the good ones; 0 otherwise, or if it still runs.
int RankWatch::good_status(const RankOutcome& outcome) const {
  if (!outcome.ended || !WIFEXITED(outcome.wait_status)) return 0;
  const int status = WEXITSTATUS(outcome.wait_status);
  const bool is_good = status == options_.stopped_status || status == options_.done_status || status == options_.flawed_status;
  return is_good ? status : 0;
}

std::vector<RankOutcome> RankWatch::outcomes() const {
  std::vector<RankOutcome> all;
  for (const auto& host : ranks_.hosts) {
    for (const RankOutcome& outcome : host->outcomes()) {
      all.push_back(outcome);
      if (good_status(outcome) != 0) all.back().wait_status = 0;
    }
  }
  return all;
}

/// Returns status 0, the culprit's, one of the good statuses of LaunchOptions, or 128 + the signal that ended all ranks.
LaunchOutcome RankWatch::outcome() const {
  const std::vector<RankOutcome> ranks = outcomes();
  LaunchOutcome result;
  result.interrupted = interrupt_;
  result.at_once = at_once_;
  if (const Verdict verdict = find_culprit(ranks); verdict.failed) {
    result.status = verdict.status;
    result.error = verdict.error;
    if (!verdict.lost.empty() && !waits_.empty()) result.error += "; " + waits_;
    return result;
  }
  for (const int status : {options_.stopped_status, options_.done_status, options_.flawed_status}) {
    const bool any = std::any_of(ranks_.hosts.begin(), ranks_.hosts.end(), [&](const auto& host) {
      const std::vector<RankOutcome>& own = host->outcomes();
      return std::any_of(own.begin(), own.end(), [&](const RankOutcome& outcome) { return good_status(outcome) == status; });
    });
    if (status == 0 || !any) continue;
    result.status = status == options_.done_status ? 1 : status;
    result.is_well = true;
    return result;
  }
  // Ranks that received the signal finished before it had an effect.
  const bool all_done = std::all_of(ranks.begin(), ranks.end(), [](const RankOutcome& o) { return o.wait_status == 0; });
  if (interrupt_ == 0 || (options_.stopped_status != 0 && all_done && phase_ == Phase::interrupted)) return result;
  result.status = 128 + interrupt_;
  std::array<char, 160> buffer;
  const std::string_view unsaved = options_.board != nullptr ? unsaved_text(*options_.board, buffer) : std::string_view();
  result.error = fmt::format("ended by {}{}", signal_text(interrupt_), unsaved);
  return result;
}

}  // namespace weft
