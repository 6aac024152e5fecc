#include "weft/base/file_io.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "weft/base/uninterrupted.h"

namespace weft {
namespace {

constexpr int64_t kLargest = int64_t{1} << 30;  // Linux moves at most 2 GiB per call

/// Calls move(done, bytes), which returns like read(), until all bytes are moved. Returns the bytes moved, or -1 on failure.
template <class Move>
int64_t move_all(int64_t bytes, const Move& move) {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t moved = uninterrupted([&] { return move(done, static_cast<size_t>(std::min(bytes - done, kLargest))); });
    if (moved < 0) return -1;
    if (moved == 0) break;
    done += moved;
  }
  return done;
}

bool is_written(int64_t done, int64_t bytes) {
  if (done >= 0 && done < bytes) errno = ENOSPC;
  return done == bytes;
}

}  // namespace

int64_t read_all(int descriptor, int64_t offset, void* data, int64_t bytes) {
  return move_all(bytes, [&](int64_t done, size_t most) {
    return ::pread(descriptor, static_cast<char*>(data) + done, most, offset + done);
  });
}

bool write_all(int descriptor, int64_t offset, const void* data, int64_t bytes) {
  return is_written(move_all(bytes,
                             [&](int64_t done, size_t most) {
                               return ::pwrite(descriptor, static_cast<const char*>(data) + done, most, offset + done);
                             }),
                    bytes);
}

bool write_all(int descriptor, const void* data, int64_t bytes) {
  return is_written(
      move_all(bytes,
               [&](int64_t done, size_t most) { return ::write(descriptor, static_cast<const char*>(data) + done, most); }),
      bytes);
}

}  // namespace weft
