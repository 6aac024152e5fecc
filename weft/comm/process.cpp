#include "weft/comm/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "weft/base/error.h"

namespace weft {

FileDescriptor watch_process(int pid) {
  if (pid == ::getpid()) return FileDescriptor();
  // Readable once the process has ended. One that has ended before is told by its missing.
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0)
    throw CommError(
        fmt::format("process {} of a peer rank cannot be watched: {}; it may have died", pid, std::strerror(errno)));
  return FileDescriptor(fd);
}

bool has_ended(const FileDescriptor& watched) {
  if (!watched) return false;
  pollfd entry{watched.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

ProcessState process_state(int pid) {
  if (pid == ::getpid()) return ProcessState::runs;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  // "4711 (a name) T ...", where the name may hold anything.
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) {
    return ::kill(pid, 0) != 0 && errno == ESRCH ? ProcessState::ended : ProcessState::runs;
  }
  const char state = text[name_end + 2];
  if (state == 'T' || state == 't') return ProcessState::stopped;
  return state == 'Z' || state == 'X' ? ProcessState::ended : ProcessState::runs;
}

}  // namespace weft
