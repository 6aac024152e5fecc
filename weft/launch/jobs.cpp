#include "weft/launch/jobs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "weft/base/deadline.h"
#include "weft/base/error.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/monotonic.h"
#include "weft/base/time_limit.h"
#include "weft/launch/guardian.h"
#include "weft/launch/process_group.h"
#include "weft/launch/signal_watch.h"

namespace weft {
namespace {

/// This process's environment with some variables set, without those of a rank or host: a job is neither.
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
  /// Jobs are left only after an exception.
  ~JobGroup() { signal_all(SIGKILL); }
  JobGroup(const JobGroup&) = delete;
  JobGroup& operator=(const JobGroup&) = delete;

  int run();

 private:
  void start(size_t job);
  void reap();
  void on_signal(int signal);
  void signal_all(int number);

  const std::vector<Job>& jobs_;
  const JobOptions& options_;
  SignalWatch signals_;
  Guardian guardian_;
  FileDescriptor null_;
  std::map<size_t, ProcessGroup> running_;  ///< by job
  int interrupt_ = 0;
  int64_t interrupt_ns_ = 0;
  std::optional<Deadline> deadline_;
};

int JobGroup::run() {
  const auto most = static_cast<size_t>(std::max(1, options_.side_by_side));
  size_t next = 0;
  for (;;) {
    while (interrupt_ == 0 && next < jobs_.size() && running_.size() < most) start(next++);
    if (running_.empty()) return interrupt_;
    std::vector<pollfd> ready = {{signals_.fd(), POLLIN, 0}};
    for (const auto& [job, process] : running_) ready.push_back(process.descriptor());
    const int64_t left_ms = deadline_ ? std::min<int64_t>(deadline_->left().count() + 1, std::numeric_limits<int>::max()) : -1;
    if (poll(ready.data(), ready.size(), static_cast<int>(left_ms)) < 0 && errno != EINTR) {
      throw Error(fmt::format("cannot wait for the jobs: {}", std::strerror(errno)));
    }
    for (const int signal : signals_.receive()) on_signal(signal);
    reap();
    if (deadline_ && deadline_->passed()) {
      deadline_.reset();
      signal_all(SIGKILL);
    }
  }
}

void JobGroup::start(size_t job) {
  const Job& what = jobs_[job];
  const FileDescriptor log(open(what.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (log.get() < 0) throw InputError(fmt::format("cannot write the log '{}': {}", what.log, std::strerror(errno)));
  const ProcessStart start{.command = what.command,
                           .environment = job_environment(what.environment),
                           .standard_input = null_.get(),
                           .standard_output = log.get(),
                           .guardian = &guardian_,
                           .signal_mask = signals_.old_mask()};
  running_.try_emplace(job, start);
  if (options_.on_start) options_.on_start(job);
}

void JobGroup::reap() {
  for (auto next = running_.begin(); next != running_.end();) {
    const auto one = next++;
    const std::optional<int> status = one->second.reap();
    if (!status) continue;
    const size_t job = one->first;
    one->second.check_run();
    running_.erase(one);
    const int result = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
    if (options_.on_end) options_.on_end(job, {.status = result, .interrupted = interrupt_ != 0});
  }
}

void JobGroup::on_signal(int signal) {
  // Some parents (timeout, a terminal's shell) send a signal twice; that is not a second Ctrl-C.
  const int64_t now = monotonic_ns();
  if (interrupt_ != 0 && now - interrupt_ns_ < kSamePress_ns) return;
  if (interrupt_ != 0) return signal_all(SIGKILL);
  interrupt_ = signal;
  interrupt_ns_ = now;
  deadline_ = time_limit(options_.grace_s);
  signal_all(SIGTERM);
}

void JobGroup::signal_all(int number) {
  for (auto& [job, process] : running_) process.signal(number);
}

}  // namespace

int run_jobs(const std::vector<Job>& jobs, const JobOptions& options) {
  if (jobs.empty()) return 0;
  return JobGroup(jobs, options).run();
}

}  // namespace weft
