#include "weft/report/records/appended_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/file_io.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/storage_error.h"
#include "weft/base/without_signal.h"

namespace weft {

AppendedFile::AppendedFile(std::string path) : path_(std::move(path)) { open(); }

void AppendedFile::open() {
  FileDescriptor opened(above_standard(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)));
  if (!opened) throw InputError(fmt::format("cannot write {}: {}", path_, std::generic_category().message(errno)));
  struct stat status {};
  if (fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw InputError(fmt::format("cannot write {}: it is not a regular file", path_));
  }
  if (flock(opened.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw HeldError(fmt::format("another run writes {}", path_));
  }
  descriptor_ = std::move(opened);
  bytes_ = status.st_size;
}

bool AppendedFile::remake_if_removed() {
  struct stat status {};
  if (fstat(descriptor_.get(), &status) != 0 || status.st_nlink > 0) return false;
  std::error_code ignored;  // open() says more
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  open();
  return true;
}

void AppendedFile::fail(const char* action, int error) const {
  throw IoError(fmt::format("cannot {} {}: {}", action, path_, std::generic_category().message(error)));
}

void AppendedFile::append(std::string_view text) {
  const WithoutSignal guard(SIGXFSZ);
  if (!write_all(descriptor_.get(), bytes_, text.data(), static_cast<int64_t>(text.size()))) {
    const int error = errno;
    (void)!ftruncate(descriptor_.get(), bytes_);  // readers ignore a part of a line
    fail("write", error);
  }
  bytes_ += static_cast<int64_t>(text.size());
}

void AppendedFile::truncate(int64_t bytes) {
  if (bytes == bytes_) return;
  if (ftruncate(descriptor_.get(), bytes) != 0) fail("cut", errno);
  bytes_ = bytes;
}

int64_t AppendedFile::whole_lines(const std::function<bool(std::string_view line)>& visit) const {
  constexpr int64_t kBlock = int64_t{1} << 20;
  std::string block;
  int64_t end = 0;  // of the lines visited
  while (true) {
    const size_t before = block.size();
    block.resize(before + kBlock);
    const int64_t got = read_all(descriptor_.get(), end + static_cast<int64_t>(before), block.data() + before, kBlock);
    if (got < 0) fail("read", errno);
    block.resize(before + static_cast<size_t>(got));
    size_t first = 0;
    for (size_t newline; (newline = block.find('\n', first)) != std::string::npos; first = newline + 1) {
      if (!visit(std::string_view(block).substr(first, newline - first))) return end + static_cast<int64_t>(first);
    }
    end += static_cast<int64_t>(first);
    block.erase(0, first);
    if (got == 0) return end;
  }
}

}  // namespace weft
