// Preloaded into a rank: ends it, or fails a call, at the n-th system call that changes something below a folder. So every
// instant of a save can be tried, one after another.
//
//   WEFT_FAIL_BELOW=FOLDER   calls on files in it count
//   WEFT_FAIL_AT=N           the N-th of them, from 1
//   WEFT_FAIL_RANK=R         in rank R alone
//   WEFT_FAIL_WITH=ENOSPC    fails it and all that follow so; left out: the process is killed before the call
//   WEFT_FAIL_COUNT=FILE     writes how many there were to FILE, at the end
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace {

std::atomic<long> calls = 0;

bool is_below(const char* path) {
  static const char* folder = getenv("WEFT_FAIL_BELOW");
  if (folder == nullptr || path == nullptr) return false;
  char whole[PATH_MAX];
  if (path[0] != '/') {
    if (getcwd(whole, sizeof whole) == nullptr) return false;
    return (std::string(whole) + "/" + path).rfind(folder, 0) == 0;
  }
  return strncmp(path, folder, strlen(folder)) == 0;
}

bool is_below(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = 0;
  return is_below(path);
}

/// Whether the call is to fail; does not come back where it is to kill.
bool counts() {
  static const char* rank = getenv("WEFT_FAIL_RANK");
  static const char* own = getenv("RANK");
  if (rank != nullptr && (own == nullptr || strcmp(rank, own) != 0)) return false;
  static const long at = getenv("WEFT_FAIL_AT") != nullptr ? atol(getenv("WEFT_FAIL_AT")) : 0;
  const long number = ++calls;
  if (at == 0 || number < at) return false;
  if (getenv("WEFT_FAIL_WITH") == nullptr) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  errno = ENOSPC;
  return true;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

struct Count {
  ~Count() {
    const char* file = getenv("WEFT_FAIL_COUNT");
    const char* own = getenv("RANK");
    if (file == nullptr || own == nullptr) return;
    if (FILE* out = fopen((std::string(file) + own).c_str(), "w")) {
      fprintf(out, "%ld\n", calls.load());
      fclose(out);
    }
  }
} count;

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (fd > 2 && is_below(fd) && counts()) return -1;
  return real(fd, data, bytes);
}

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  if (is_below(fd) && counts()) return -1;
  return real(fd);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  if (is_below(to) && counts()) return -1;
  return real(from, to);
}

int linkat(int from_fd, const char* from, int to_fd, const char* to, int flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*, int)>("linkat");
  if (is_below(to) && counts()) return -1;
  return real(from_fd, from, to_fd, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  if (is_below(path) && counts()) return -1;
  return real(path, mode);
}

int unlink(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("unlink");
  if (is_below(path) && counts()) return -1;
  return real(path);
}

int remove(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("remove");
  if (is_below(path) && counts()) return -1;
  return real(path);
}

int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  const bool changes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  if (changes && is_below(path) && counts()) return -1;
  return real(path, flags, mode);
}
}
