#include "weft/comm/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace weft
