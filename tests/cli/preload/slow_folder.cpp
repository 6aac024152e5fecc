// Preloaded into a command: each write below the folder WEFT_SLOW_BELOW takes a minute, like a hanging file system.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = reinterpret_cast<ssize_t (*)(int, const void*, size_t)>(dlsym(RTLD_NEXT, "write"));
  static const char* folder = getenv("WEFT_SLOW_BELOW");
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = folder == nullptr ? -1 : readlink(link, path, sizeof path - 1);
  if (length > 0) {
    path[length] = 0;
    if (strncmp(path, folder, strlen(folder)) == 0) sleep(60);
  }
  return real(fd, data, bytes);
}
