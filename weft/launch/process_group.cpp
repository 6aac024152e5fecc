#include "weft/launch/process_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/uninterrupted.h"
#include "weft/launch/guardian.h"

namespace weft {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

struct ChildArguments {
  pid_t launcher;
  int status_pipe;
  char** argv;
  char** envp;
};

/// Resets signals that a shell or another parent ignored for the launcher (SIGINT and SIGQUIT with `&`), because the rank could
/// otherwise only be killed. SIGHUP stays: under nohup, ranks survive the terminal.
void restore_dispositions() {
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction action {};
    if (number == SIGHUP || sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) continue;
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
  }
  // A rank is not a foreground job; with `stty tostop` its output would stop it forever.
  signal(SIGTTOU, SIG_IGN);
}

/// Runs between fork and exec: async-signal-safe calls only.
[[noreturn]] void become_program(const ProcessStart& start, const ChildArguments& child) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.launcher) _exit(1);  // the launcher died before the line above
  if (start.guardian != nullptr) Guardian::note(start.guardian->pipe(), getpid());
  restore_dispositions();
  sigprocmask(SIG_SETMASK, &start.signal_mask, nullptr);
  if (start.standard_input >= 0) dup2(start.standard_input, STDIN_FILENO);
  if (start.standard_output >= 0) {
    dup2(start.standard_output, STDOUT_FILENO);
    dup2(start.standard_error >= 0 ? start.standard_error : start.standard_output, STDERR_FILENO);
  }
  for (const int fd : start.inherited) fcntl(fd, F_SETFD, 0);
  execvpe(child.argv[0], child.argv, child.envp);
  const int reason = errno;
  if (write(child.status_pipe, &reason, sizeof reason) < 0) _exit(126);
  _exit(127);
}

/// Returns the child's pid; `exec_pipe` reports why the program cannot run.
pid_t start_process(const ProcessStart& start, FileDescriptor& exec_pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("cannot start a rank: {}", std::strerror(errno)));
  FileDescriptor status_read(ends[0]), status_write(ends[1]);
  fcntl(status_read.get(), F_SETFL, O_NONBLOCK);
  std::vector<char*> argv = pointers(start.command), envp = pointers(start.environment);
  const ChildArguments child{getpid(), status_write.get(), argv.data(), envp.data()};
  const pid_t pid = fork();
  if (pid < 0) throw Error(fmt::format("cannot start a rank: {}; fewer ranks (-n) may work", std::strerror(errno)));
  if (pid == 0) become_program(start, child);
  setpgid(pid, pid);  // also here: the group must exist before it is sent a signal
  exec_pipe = std::move(status_read);
  return pid;
}

}  // namespace

ProcessGroup::ProcessGroup(const ProcessStart& start)
    : guardian_(start.guardian),
      program_(start.command.front()),
      pid_(start_process(start, exec_pipe_)),
      pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0))) {
  if (pidfd_) return;
  const int reason = errno;
  end();
  throw Error(fmt::format("cannot watch the started '{}': {} (pidfd_open, which needs Linux 5.3 or newer)", program_,
                          std::strerror(reason)));
}

ProcessGroup::~ProcessGroup() {
  if (is_left()) end();
}

bool ProcessGroup::wait(const Deadline& deadline) const {
  pollfd ended = descriptor();
  return uninterrupted([&] { return poll(&ended, 1, static_cast<int>(deadline.left().count())); }) == 1;
}

/// Returns true if waitid() reports that state.
bool ProcessGroup::is(int what) const {
  siginfo_t info{};
  return is_left() && waitid(P_PID, static_cast<id_t>(pid_), &info, what | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
}

void ProcessGroup::signal(int number) {
  if (!is_left()) return;
  kill(-pid_, number);
  kill(-pid_, SIGCONT);
}

std::optional<int> ProcessGroup::reap() { return is(WEXITED) ? std::optional(end()) : std::nullopt; }

/// Kills what the child left behind, while the child's pid still identifies the group.
int ProcessGroup::end() {
  kill(-pid_, SIGKILL);
  if (guardian_ != nullptr) guardian_->forget(pid_);
  int status = 0;
  uninterrupted([&] { return waitpid(pid_, &status, 0); });
  pid_ = -1;
  pidfd_.close();
  return status;
}

void ProcessGroup::check_run(std::chrono::milliseconds patience) const {
  pollfd known{exec_pipe_.get(), POLLIN, 0};
  poll(&known, 1, static_cast<int>(patience.count()));
  int reason = 0;
  if (read(exec_pipe_.get(), &reason, sizeof reason) == sizeof reason)
    throw InputError(fmt::format("cannot run '{}': {}", program_, std::strerror(reason)));
}

}  // namespace weft
