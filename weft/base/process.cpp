#include "weft/base/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/parse_number.h"

namespace weft {

FileDescriptor watch_process(int pid) {
  if (pid == ::getpid()) return FileDescriptor();
  // Readable once the process has ended. The open fails for a process that has already ended.
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0)
    throw CommError(fmt::format("cannot watch process {} of a peer rank: {}; it may have died", pid, std::strerror(errno)));
  return FileDescriptor(fd);
}

bool has_ended(const FileDescriptor& watched) {
  if (!watched) return false;
  pollfd entry{watched.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

namespace {

/// The fields of /proc/PID/stat from the state onwards; empty if the file cannot be read.
std::string state_on(int pid) {
  // Format: "4711 (a name) T ...", where the name may hold any character. The process may end between opening and reading.
  char line[4096];
  const InputFile file = open_input(fmt::format("/proc/{}/stat", pid));
  const int64_t length = file.reason.empty() ? read_input(file, 0, line, sizeof line) : -1;
  const std::string_view text(line, static_cast<size_t>(std::max<int64_t>(length, 0)));
  const size_t name_end = text.rfind(')');
  return name_end == std::string_view::npos || name_end + 2 >= text.size() ? "" : std::string(text.substr(name_end + 2));
}

}  // namespace

ProcessState process_state(int pid) {
  if (pid == ::getpid()) return ProcessState::runs;
  const std::string fields = state_on(pid);
  if (fields.empty()) return ::kill(pid, 0) != 0 && errno == ESRCH ? ProcessState::ended : ProcessState::runs;
  const char state = fields.front();
  if (state == 'T' || state == 't') return ProcessState::stopped;
  return state == 'Z' || state == 'X' ? ProcessState::ended : ProcessState::runs;
}

int64_t process_start(int pid) {
  constexpr int kFieldsBefore = 19;  // counted from the state
  std::istringstream fields(state_on(pid));
  std::string field;
  for (int i = 0; i <= kFieldsBefore; ++i) fields >> field;
  return fields ? parse_number<int64_t>(field).value_or(0) : 0;
}

}  // namespace weft
