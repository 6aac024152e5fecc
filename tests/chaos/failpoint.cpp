// Preloaded into a rank: kills it, or fails a call, at the n-th system call on a path below a folder, so every instant of a
// save or a load can be tested in turn.
//
//   WEFT_FAIL_BELOW=FOLDER   counts calls on files below it
//   WEFT_FAIL_CALLS=reads    counts reading calls; default: changing calls; "all": both
//   WEFT_FAIL_AT=N           acts on the N-th call, from 1
//   WEFT_FAIL_RANK=R         acts only in rank R
//   WEFT_FAIL_WITH=ENOSPC    fails the call with that error (ENOSPC, EIO, ESTALE); default: kills the process before it
//   WEFT_FAIL_TIMES=N        fails N calls; default: all that follow
//   WEFT_FAIL_DELAY=MS       delays each call
//   WEFT_FAIL_LOCKS=ENOSYS   fails every flock() there with that error (ENOSYS, ENOLCK, EIO)
//   WEFT_FAIL_CLOCK=S        the system clock jumps by up to S seconds, either way, at each reading
//   WEFT_FAIL_COUNT=FILE     writes the number of calls to FILE with the rank appended, at exit
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
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
  return path[0] == '/' && is_below(path);  // not "pipe:[123]"
}

int error_of(const char* name) {
  const struct {
    const char* name;
    int number;
  } table[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"ESTALE", ESTALE}, {"ENOSYS", ENOSYS}, {"ENOLCK", ENOLCK}};
  for (const auto& row : table) {
    if (strcmp(row.name, name) == 0) return row.number;
  }
  fprintf(stderr, "failpoint: no error '%s'\n", name);
  abort();
}

enum class Kind { change, read };

/// Returns whether the call must fail; does not return if it must kill.
bool counts(Kind kind) {
  static const char* calls_of = getenv("WEFT_FAIL_CALLS");
  const bool is_all = calls_of != nullptr && strcmp(calls_of, "all") == 0;
  const bool is_read = calls_of != nullptr && strcmp(calls_of, "reads") == 0;
  if (!is_all && (kind == Kind::read) != is_read) return false;
  static const char* rank = getenv("WEFT_FAIL_RANK");
  static const char* own = getenv("RANK");
  if (rank != nullptr && (own == nullptr || strcmp(rank, own) != 0)) return false;
  static const long delay_ms = getenv("WEFT_FAIL_DELAY") != nullptr ? atol(getenv("WEFT_FAIL_DELAY")) : 0;
  if (delay_ms > 0) usleep(static_cast<useconds_t>(delay_ms * 1000));
  static const long at = getenv("WEFT_FAIL_AT") != nullptr ? atol(getenv("WEFT_FAIL_AT")) : 0;
  const long number = ++calls;
  static const long times = getenv("WEFT_FAIL_TIMES") != nullptr ? atol(getenv("WEFT_FAIL_TIMES")) : LONG_MAX;
  if (at == 0 || number < at || number - at >= times) return false;
  if (getenv("WEFT_FAIL_WITH") == nullptr) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  errno = error_of(getenv("WEFT_FAIL_WITH"));
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
  if (fd > 2 && is_below(fd) && counts(Kind::change)) return -1;
  return real(fd, data, bytes);
}

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  if (is_below(fd) && counts(Kind::change)) return -1;
  return real(fd);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  if (is_below(to) && counts(Kind::change)) return -1;
  return real(from, to);
}

int linkat(int from_fd, const char* from, int to_fd, const char* to, int flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*, int)>("linkat");
  if (is_below(to) && counts(Kind::change)) return -1;
  return real(from_fd, from, to_fd, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  if (is_below(path) && counts(Kind::change)) return -1;
  return real(path, mode);
}

int unlink(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("unlink");
  if (is_below(path) && counts(Kind::change)) return -1;
  return real(path);
}

int remove(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("remove");
  if (is_below(path) && counts(Kind::change)) return -1;
  return real(path);
}

int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  const bool changes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  if (is_below(path) && counts(changes ? Kind::change : Kind::read)) return -1;
  return real(path, flags, mode);
}

ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  static const auto real = next<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  if (is_below(fd) && counts(Kind::read)) return -1;
  return real(fd, data, bytes, offset);
}

int stat(const char* path, struct stat* info) noexcept {
  static const auto real = next<int (*)(const char*, struct stat*)>("stat");
  if (is_below(path) && counts(Kind::read)) return -1;
  return real(path, info);
}

DIR* opendir(const char* path) {
  static const auto real = next<DIR* (*)(const char*)>("opendir");
  if (is_below(path) && counts(Kind::read)) return nullptr;
  return real(path);
}

int flock(int fd, int operation) noexcept {
  static const auto real = next<int (*)(int, int)>("flock");
  static const char* error = getenv("WEFT_FAIL_LOCKS");
  if (error == nullptr || !is_below(fd)) return real(fd, operation);
  errno = error_of(error);
  return -1;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = next<int (*)(clockid_t, timespec*)>("clock_gettime");
  static const long most = getenv("WEFT_FAIL_CLOCK") != nullptr ? atol(getenv("WEFT_FAIL_CLOCK")) : 0;
  const int result = real(clock, time);
  if (most > 0 && clock == CLOCK_REALTIME) time->tv_sec += random() % (2 * most + 1) - most;
  return result;
}
}
