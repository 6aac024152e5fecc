// Preloaded into a command: on rank WEFT_FLIP_RANK, one bit of one large write to a socket flips, as on a bad link that no
// checksum guards. WEFT_FLIP_AFTER counts the writes of 4 KB or more before it; the rest of one that the system took in part is
// none, as it may begin inside an element.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <numeric>
#include <string>
#include <vector>

namespace {

bool is_turn(size_t bytes) {
  static const char *rank = getenv("RANK"), *wanted = getenv("WEFT_FLIP_RANK"), *after = getenv("WEFT_FLIP_AFTER");
  static std::atomic<int> left = after == nullptr ? -1 : atoi(after);
  return rank != nullptr && wanted != nullptr && strcmp(rank, wanted) == 0 && bytes >= 4096 && left-- == 0;
}

constexpr int kFiles = 4096;
std::array<std::atomic<bool>, kFiles> in_part;  ///< by file descriptor: the next write goes on with the last one

ssize_t write_on(int fd, const struct iovec* parts, int count) {
  static const auto real = reinterpret_cast<ssize_t (*)(int, const struct iovec*, int)>(dlsym(RTLD_NEXT, "writev"));
  const ssize_t bytes = std::accumulate(parts, parts + count, ssize_t{0}, [](ssize_t sum, const struct iovec& part) {
    return sum + static_cast<ssize_t>(part.iov_len);
  });
  const ssize_t written = real(fd, parts, count);
  if (fd < kFiles && written > 0) in_part[fd] = written < bytes;
  return written;
}

}  // namespace

extern "C" ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (fd >= kFiles || in_part[fd]) return write_on(fd, parts, count);
  for (int i = 0; i < count; ++i) {
    if (!is_turn(parts[i].iov_len)) continue;
    std::string copy(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    copy[42] ^= 4;
    std::vector<struct iovec> changed(parts, parts + count);
    changed[i].iov_base = copy.data();
    return write_on(fd, changed.data(), count);
  }
  return write_on(fd, parts, count);
}
