#include "weft/launch/guardian.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/uninterrupted.h"
#include "weft/base/without_signal.h"

namespace weft {

namespace {

struct Note {
  pid_t group;
  int alive;
};

/// If someone killed the guardian, the run continues unguarded.
void write_note(int pipe, const Note& note) {
  const WithoutSignal guard(SIGPIPE);
  // Far below PIPE_BUF, so the write is atomic.
  uninterrupted([&] { return write(pipe, &note, sizeof note); });
}

/// Drops everything inherited from the launcher: its terminal's signals, output and other descriptors.
void detach(int& pipe) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_NAME, "weft-guardian");
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  if (pipe != 3) pipe = dup2(pipe, 3);
  close_range(4, ~0U, 0);
}

[[noreturn]] void guard(int pipe, std::vector<pid_t>& groups) {
  detach(pipe);
  Note note{};
  for (;;) {
    const ssize_t got = uninterrupted([&] { return read(pipe, &note, sizeof note); });
    if (got != sizeof note) break;
    if (note.alive != 0) {
      groups.push_back(note.group);
    } else {
      groups.erase(std::remove(groups.begin(), groups.end(), note.group), groups.end());
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Guardian::Guardian(int num_groups) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("cannot create the guardian's pipe: {}", std::strerror(errno)));
  FileDescriptor read_end(ends[0]);
  write_end_ = FileDescriptor(ends[1]);
  std::vector<pid_t> groups;
  groups.reserve(static_cast<size_t>(num_groups));
  pid_ = fork();
  if (pid_ < 0) throw Error(fmt::format("cannot start the guardian process: {}", std::strerror(errno)));
  if (pid_ == 0) {
    write_end_.close();
    guard(read_end.get(), groups);
  }
}

Guardian::~Guardian() {
  kill(pid_, SIGKILL);  // it may be stopped, and nothing is left to guard
  uninterrupted([&] { return waitpid(pid_, nullptr, 0); });
}

void Guardian::note(int pipe, pid_t group) { write_note(pipe, {group, 1}); }

void Guardian::forget(pid_t group) { write_note(write_end_.get(), {group, 0}); }

}  // namespace weft
