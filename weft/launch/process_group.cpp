#include "weft/launch/process_group.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/uninterrupted.h"
#include "weft/launch/guardian.h"
#include "weft/launch/rank_process.h"

namespace weft {

ProcessGroup::ProcessGroup(const RankStart& start) : guardian_(start.guardian), program_(start.command.front()) {
  StartedRank started = start_rank(start);
  pid_ = started.pid;
  exec_pipe_ = std::move(started.exec_pipe);
  pidfd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (pidfd_) return;
  const int reason = errno;
  end();
  throw Error(fmt::format("cannot watch '{}', which was started: {} (pidfd_open, for which Linux 5.3 or newer is needed)",
                          program_, std::strerror(reason)));
}

ProcessGroup::~ProcessGroup() {
  if (is_left()) end();
}

bool ProcessGroup::wait(const Deadline& deadline) const {
  pollfd ended = descriptor();
  return uninterrupted([&] { return poll(&ended, 1, static_cast<int>(deadline.left().count())); }) == 1;
}

bool ProcessGroup::is_stopped() const {
  siginfo_t info{};
  return is_left() && waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
}

void ProcessGroup::signal(int number) {
  if (!is_left()) return;
  kill(-pid_, number);
  kill(-pid_, SIGCONT);
}

std::optional<int> ProcessGroup::reap() {
  siginfo_t info{};
  const bool has_ended =
      is_left() && waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  return has_ended ? std::optional(end()) : std::nullopt;
}

/// What the child left behind dies with it, while its number still names the group.
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
  throw_unless_run(exec_pipe_, program_);
}

}  // namespace weft
