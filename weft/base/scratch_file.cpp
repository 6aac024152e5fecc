#include "weft/base/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "weft/base/error.h"
#include "weft/base/file_io.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/units.h"
#include "weft/base/without_signal.h"

namespace weft {
namespace {

std::string cause(int error) { return std::strerror(error); }

// Not every file system supports unnamed files; a file unlinked immediately works too.
int open_unnamed(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string name = folder + "/.weft-scratch-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

ScratchFile::ScratchFile(std::string folder) : folder_(std::move(folder)), fd_(above_standard(open_unnamed(folder_))) {
  if (fd_.get() < 0) {
    throw InputError(fmt::format("{}: cannot create a scratch file: {}; name another folder", folder_, cause(errno)));
  }
}

int64_t ScratchFile::reserve(int64_t bytes) {
  if (bytes == 0) return size_;
  auto best = holes_.end();
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const int64_t room = hole->second - hole->first;
    if (room >= bytes && (best == holes_.end() || room < best->second - best->first)) best = hole;
  }
  if (best != holes_.end()) {
    const auto [begin, end] = *best;
    holes_.erase(best);
    if (begin + bytes < end) holes_.emplace(begin + bytes, end);
    return begin;
  }
  return grow(bytes);
}

/// Starts at the hole at the end, if there is one.
int64_t ScratchFile::grow(int64_t bytes) {
  const bool has_hole = !holes_.empty() && std::prev(holes_.end())->second == size_;
  const int64_t begin = has_hole ? std::prev(holes_.end())->first : size_;
  const WithoutSignal guard(SIGXFSZ);
  if (const int error = ::posix_fallocate(fd_.get(), begin, bytes); error != 0) {
    throw InputError(fmt::format("{}: no room for {} of offloaded state: {}; {}, or name another folder", folder_,
                                 format_bytes(begin + bytes), cause(error),
                                 error == EFBIG ? "raise the limit on file sizes (ulimit -f)" : "free some space"));
  }
  if (has_hole) holes_.erase(std::prev(holes_.end()));
  size_ = begin + bytes;
  return begin;
}

void ScratchFile::release(int64_t begin, int64_t bytes) {
  if (bytes == 0) return;
  int64_t end = begin + bytes;
  const auto next = holes_.lower_bound(begin);
  if (next != holes_.begin() && std::prev(next)->second == begin) {
    begin = std::prev(next)->first;
    holes_.erase(std::prev(next));
  }
  if (next != holes_.end() && next->first == end) {
    end = next->second;
    holes_.erase(next);
  }
  holes_.emplace(begin, end);
}

void ScratchFile::write(int64_t offset, const void* data, int64_t bytes) {
  if (write_all(fd_.get(), offset, data, bytes)) return;
  throw Error(fmt::format("{}: writing offloaded state failed: {}", folder_, cause(errno)));
}

void ScratchFile::read(int64_t offset, void* data, int64_t bytes) const {
  const int64_t got = read_all(fd_.get(), offset, data, bytes);
  if (got == bytes) return;
  throw Error(fmt::format("{}: reading offloaded state failed: {}", folder_, got < 0 ? cause(errno) : "end of file"));
}

}  // namespace weft
