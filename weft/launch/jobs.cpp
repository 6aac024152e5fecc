#include "weft/launch/jobs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/monotonic.h"
#include "weft/base/time_limit.h"
#include "weft/launch/guardian.h"
#include "weft/launch/rank_process.h"
#include "weft/launch/signal_watch.h"

namespace weft {
namespace {

/// This process's environment, with some variables set; what tells a rank or a host of its place is left out: a job has none.
std::vector<std::string> job_environment(const std::vector<std::string>& set) {
  const auto name_of = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = name_of(*entry);
    const bool is_set = std::any_of(set.begin(), set.end(), [&](const std::string& other) { return name_of(other) == name; });
    if (!is_set && !is_launcher_variable(name, VariableScope::place)) result.emplace_back(*entry);
  }
  result.insert(result.end(), set.begin(), set.end());
  return result;
}

class JobGroup {
 public:
  JobGroup(const std::vector<Job>& jobs, const JobOptions& options)
      : jobs_(jobs),
        options_(options),
        guardian_(static_cast<int>(jobs.size())),
        null_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {}
  ~JobGroup();
  JobGroup(const JobGroup&) = delete;
  JobGroup& operator=(const JobGroup&) = delete;

  int run();

 private:
  struct Running {
    size_t job = 0;
    StartedRank process;
  };

  void start(size_t job);
  void reap();
  void on_signal(int signal);
  void signal_all(int number);
  int poll_timeout_ms() const;

  const std::vector<Job>& jobs_;
  const JobOptions& options_;
  SignalWatch signals_;
  Guardian guardian_;
  FileDescriptor null_;
  std::vector<Running> running_;
  int interrupt_ = 0;
  int64_t interrupt_ns_ = 0;
  std::optional<int64_t> deadline_ns_;
};

/// Only after an exception are there jobs left.
JobGroup::~JobGroup() {
  signal_all(SIGKILL);
  for (const Running& one : running_) {
    guardian_.forget(one.process.pid);
    waitpid(one.process.pid, nullptr, 0);
  }
}

int JobGroup::run() {
  const auto most = static_cast<size_t>(std::max(1, options_.side_by_side));
  size_t next = 0;
  for (;;) {
    while (interrupt_ == 0 && next < jobs_.size() && running_.size() < most) start(next++);
    if (running_.empty()) return interrupt_;
    pollfd ready = {signals_.fd(), POLLIN, 0};
    if (poll(&ready, 1, poll_timeout_ms()) < 0 && errno != EINTR) {
      throw Error(fmt::format("cannot wait for the jobs: {}", std::strerror(errno)));
    }
    for (const int signal : signals_.receive()) on_signal(signal);
    reap();
    if (deadline_ns_ && monotonic_ns() >= *deadline_ns_) {
      deadline_ns_.reset();
      signal_all(SIGKILL);
    }
  }
}

void JobGroup::start(size_t job) {
  const Job& what = jobs_[job];
  const FileDescriptor log(open(what.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (log.get() < 0) throw InputError(fmt::format("cannot write the log '{}': {}", what.log, std::strerror(errno)));
  const RankStart start{.command = what.command,
                        .environment = job_environment(what.environment),
                        .standard_input = null_.get(),
                        .standard_output = log.get(),
                        .inherited = {},
                        .guardian_pipe = guardian_.pipe(),
                        .signal_mask = signals_.old_mask()};
  running_.push_back({job, start_rank(start)});
  if (options_.on_start) options_.on_start(job);
}

void JobGroup::reap() {
  for (size_t i = 0; i < running_.size();) {
    const pid_t pid = running_[i].process.pid;
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid) {
      ++i;
      continue;
    }
    const Running ended = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    // What it left behind dies with it, while its number still names its group.
    kill(-pid, SIGKILL);
    guardian_.forget(pid);
    int status = 0;
    waitpid(pid, &status, 0);
    throw_unless_run(ended.process.exec_pipe, jobs_[ended.job].command[0]);
    const int result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (options_.on_end) options_.on_end(ended.job, {.status = result, .interrupted = interrupt_ != 0});
  }
}

void JobGroup::on_signal(int signal) {
  // Some parents (timeout, a terminal's shell) send a signal twice; that is not a second Ctrl-C.
  const int64_t now = monotonic_ns();
  if (interrupt_ != 0 && now - interrupt_ns_ < kSamePress_ns) return;
  if (interrupt_ != 0) return signal_all(SIGKILL);
  interrupt_ = signal;
  interrupt_ns_ = now;
  deadline_ns_ = now + std::chrono::nanoseconds(time_limit(options_.grace_s)).count();
  signal_all(SIGTERM);
}

/// A job that is stopped must run to hear it.
void JobGroup::signal_all(int number) {
  for (const Running& one : running_) {
    kill(-one.process.pid, number);
    kill(-one.process.pid, SIGCONT);
  }
}

// A thread that was there before may take the signal of a job's end and ignore it, so jobs are looked at now and then anyway.
int JobGroup::poll_timeout_ms() const {
  constexpr int64_t kLook = 500;
  if (!deadline_ns_) return kLook;
  return static_cast<int>(std::clamp<int64_t>((*deadline_ns_ - monotonic_ns()) / 1'000'000 + 1, 1, kLook));
}

}  // namespace

int run_jobs(const std::vector<Job>& jobs, const JobOptions& options) {
  if (jobs.empty()) return 0;
  return JobGroup(jobs, options).run();
}

}  // namespace weft
