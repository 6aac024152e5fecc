#include "weft/launch/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/base/monotonic.h"
#include "weft/launch/culprit.h"
#include "weft/launch/error_pipe.h"
#include "weft/launch/guardian.h"
#include "weft/launch/rank_limits.h"
#include "weft/launch/rank_process.h"
#include "weft/launch/signal_watch.h"

namespace weft {

namespace {

constexpr int64_t kSecond = 1'000'000'000;
/// How long an error that may be an echo of another rank's failure waits for that failure to show.
constexpr int64_t kEcho = kSecond / 4;
/// Some parents (timeout, a terminal's shell) send a signal twice; that is not a second Ctrl-C.
constexpr int64_t kSamePress = kSecond / 5;

enum class Phase {
  running,
  settling,     ///< a rank failed, perhaps as an echo: the cause may still show itself
  interrupted,  ///< the first Ctrl-C was passed on
  terminating,  ///< SIGTERM was sent
  killing,      ///< SIGKILL was sent
};

class RankGroup {
 public:
  explicit RankGroup(const LaunchOptions& options) : options_(options), guardian_(options.num_ranks) {}
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  void start();
  void watch();
  LaunchOutcome outcome() const;

 private:
  struct Rank {
    pid_t pid = -1;  ///< -1 once reaped
    FileDescriptor exec_pipe;
    RankOutcome outcome;
  };

  std::vector<RankOutcome> outcomes() const;
  bool any_left() const;
  static void signal(const Rank& rank, int number);
  void signal_all(int number);
  void terminate();
  void enter(Phase phase, double seconds);
  void on_signal(int signal);
  void on_deadline();
  void collect_messages();
  void reap();
  void reap(Rank& rank);
  void judge();
  int poll_timeout_ms() const;

  LaunchOptions options_;
  SignalWatch signals_;
  ErrorPipe errors_;
  Guardian guardian_;
  std::vector<Rank> ranks_;
  Phase phase_ = Phase::running;
  std::optional<int64_t> deadline_ns_;
  bool has_asked_ = false;    ///< LaunchOptions::ask_to_stop
  bool has_stopped_ = false;  ///< a rank ended with LaunchOptions::stopped_status
  int interrupt_ = 0;
  int64_t interrupt_ns_ = 0;
  std::shared_ptr<void> server_;
};

/// Only after an exception are there ranks left.
RankGroup::~RankGroup() {
  for (Rank& rank : ranks_) {
    if (rank.pid < 0) continue;
    kill(-rank.pid, SIGKILL);
    guardian_.forget(rank.pid);
    waitpid(rank.pid, nullptr, 0);
  }
}

void RankGroup::start() {
  provide_descriptors(options_.num_ranks);
  FileDescriptor socket = options_.serve ? listen_on_loopback() : FileDescriptor();
  const int port = free_loopback_port();
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int threads = threads_per_rank(available_cores(), options_.num_ranks);
  for (int r = 0; r < options_.num_ranks; ++r) {
    RankStart start{.command = options_.command,
                    .environment = {},
                    .standard_input = r == 0 && isatty(STDIN_FILENO) == 0 ? -1 : null.get(),
                    .inherited = options_.inherited,
                    .guardian_pipe = guardian_.pipe(),
                    .signal_mask = signals_.old_mask()};
    start.environment = rank_environment({.rank = r,
                                          .num_ranks = options_.num_ranks,
                                          .port = port,
                                          .store_port = socket ? port_of(socket) : 0,
                                          .error_fd = errors_.write_end(),
                                          .threads = threads});
    start.inherited.push_back(errors_.write_end());
    start.environment.insert(start.environment.end(), options_.environment.begin(), options_.environment.end());
    Rank& rank = ranks_.emplace_back();
    rank.outcome.rank = r;
    StartedRank started = start_rank(start);
    rank.pid = started.pid;
    rank.exec_pipe = std::move(started.exec_pipe);
  }
  // After the last fork: it starts threads.
  if (socket) server_ = options_.serve(std::move(socket));
}

void RankGroup::watch() {
  while (any_left()) {
    pollfd ready[] = {{signals_.fd(), POLLIN, 0}, {errors_.read_end(), POLLIN, 0}};
    if (poll(ready, 2, poll_timeout_ms()) < 0 && errno != EINTR) {
      throw Error(fmt::format("cannot wait for the ranks: {}", strerror(errno)));
    }
    for (const int signal : signals_.receive()) on_signal(signal);
    reap();
    collect_messages();  // after reaping: what a rank that has ended wrote is in the pipe by then
    judge();
    if (deadline_ns_ && monotonic_ns() >= *deadline_ns_) on_deadline();
    if (phase_ == Phase::running && options_.ask_to_stop && !has_asked_ && options_.ask_to_stop()) {
      has_asked_ = true;
      signal_all(SIGUSR1);
    }
  }
}

bool RankGroup::any_left() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.pid >= 0; });
}

/// One that is stopped must run to hear it.
void RankGroup::signal(const Rank& rank, int number) {
  if (rank.pid < 0) return;
  kill(-rank.pid, number);
  kill(-rank.pid, SIGCONT);
}

void RankGroup::signal_all(int number) {
  for (const Rank& rank : ranks_) signal(rank, number);
}

/// Ranks that have reported an error are about to end by themselves, with a status of their own.
void RankGroup::terminate() {
  for (const Rank& rank : ranks_) {
    if (rank.outcome.said.empty()) signal(rank, options_.end_signal != 0 ? options_.end_signal : SIGTERM);
  }
  enter(Phase::terminating, options_.grace_s);
}

void RankGroup::enter(Phase phase, double seconds) {
  phase_ = phase;
  deadline_ns_ = monotonic_ns() + static_cast<int64_t>(seconds * kSecond);
}

void RankGroup::on_signal(int signal) {
  const int64_t now = monotonic_ns();
  if (interrupt_ != 0 && now - interrupt_ns_ < kSamePress) return;
  if (interrupt_ != 0 || phase_ == Phase::terminating) {
    signal_all(SIGKILL);
    phase_ = Phase::killing;
    deadline_ns_.reset();
  } else if (phase_ != Phase::killing) {
    signal_all(signal);
    enter(Phase::interrupted, options_.interrupt_grace_s);
  }
  interrupt_ = signal;
  interrupt_ns_ = now;
}

void RankGroup::on_deadline() {
  deadline_ns_.reset();
  if (phase_ == Phase::settling) {
    terminate();
  } else {
    signal_all(SIGKILL);
    phase_ = Phase::killing;
  }
}

void RankGroup::collect_messages() {
  for (RankError& error : errors_.receive()) {
    // What a rank says about being ended is no news.
    if (error.rank < 0 || error.rank >= options_.num_ranks || phase_ > Phase::settling) continue;
    ranks_[static_cast<size_t>(error.rank)].outcome.said.push_back(std::move(error));
  }
}

void RankGroup::reap() {
  for (Rank& rank : ranks_) {
    if (rank.pid >= 0) reap(rank);
  }
}

void RankGroup::reap(Rank& rank) {
  siginfo_t info{};
  const auto pid = static_cast<id_t>(rank.pid);
  if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != rank.pid) return;
  throw_unless_run(rank.exec_pipe, options_.command[0]);
  rank.outcome.ended = true;
  rank.outcome.ended_ns = monotonic_ns();
  rank.outcome.ended_by_us = phase_ > Phase::settling;
  // What it left behind dies with it, while its number still names its group.
  kill(-rank.pid, SIGKILL);
  guardian_.forget(rank.pid);
  int& status = rank.outcome.wait_status;
  waitpid(rank.pid, &status, 0);
  rank.pid = -1;
  if (options_.stopped_status != 0 && WIFEXITED(status) && WEXITSTATUS(status) == options_.stopped_status) {
    has_stopped_ = true;
    status = 0;
  }
}

void RankGroup::judge() {
  if (phase_ > Phase::settling) return;
  for (Rank& rank : ranks_) rank.outcome.stopped = is_stopped(rank.pid);
  const Verdict verdict = find_culprit(outcomes());
  if (!verdict.failed) return;
  if (verdict.certain) {
    terminate();
  } else if (phase_ == Phase::running) {
    enter(Phase::settling, static_cast<double>(kEcho) / kSecond);
  }
}

// A thread that was there before may take the signal of a rank's end and ignore it, so ranks are looked at now and then anyway.
int RankGroup::poll_timeout_ms() const {
  constexpr int64_t kLook = 500;
  if (!deadline_ns_) return kLook;
  return static_cast<int>(std::clamp<int64_t>((*deadline_ns_ - monotonic_ns()) / 1'000'000 + 1, 0, kLook));
}

std::vector<RankOutcome> RankGroup::outcomes() const {
  std::vector<RankOutcome> all;
  all.reserve(ranks_.size());
  for (const Rank& rank : ranks_) all.push_back(rank.outcome);
  return all;
}

/// Status 0, or that of the culprit, or 128 + the signal that ended all.
LaunchOutcome RankGroup::outcome() const {
  const std::vector<RankOutcome> ranks = outcomes();
  LaunchOutcome result;
  result.interrupted = interrupt_ != 0;
  if (const Verdict verdict = find_culprit(ranks); verdict.failed) {
    result.status = verdict.status;
    result.error = verdict.error;
    return result;
  }
  if (has_stopped_) {
    result.status = options_.stopped_status;
    return result;
  }
  // Ranks that know of the signal came to their end before it mattered.
  const bool all_done = std::all_of(ranks.begin(), ranks.end(), [](const RankOutcome& o) { return o.wait_status == 0; });
  if (interrupt_ == 0 || (options_.stopped_status != 0 && all_done && phase_ == Phase::interrupted)) return result;
  result.status = 128 + interrupt_;
  result.error = fmt::format("ended by {}", signal_text(interrupt_));
  return result;
}

}  // namespace

LaunchOutcome launch_once(const LaunchOptions& options) {
  check_rank_count(options.num_ranks);
  if (options.command.empty()) throw InputError("no program to run");
  RankGroup group(options);
  group.start();
  group.watch();
  return group.outcome();
}

int launch(const LaunchOptions& options, std::string& error) {
  LaunchOutcome outcome = launch_once(options);
  error = std::move(outcome.error);
  return outcome.status;
}

}  // namespace weft
