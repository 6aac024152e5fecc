#include "weft/base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "weft/base/file_error.h"
#include "weft/base/file_io.h"
#include "weft/base/printable.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/units.h"

namespace weft {
namespace {

/// Returns the reason to refuse a file of this mode; empty for a regular file.
std::string refusal(mode_t mode) {
  if (S_ISREG(mode)) return "";
  const char* kind = S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
  return fmt::format("it is {}, not a regular file", kind);
}

InputFile refused(std::string reason) { return {.descriptor = {}, .bytes = 0, .reason = std::move(reason)}; }

InputFile failed(int error) {
  InputFile file = refused(std::system_category().message(error));
  file.error = error;
  return file;
}

}  // namespace

InputFile open_input(const std::string& path) {
  if (path.find('\0') != std::string::npos) return refused("a path cannot contain a NUL");
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return failed(errno);
  if (std::string reason = refusal(info.st_mode); !reason.empty()) return refused(std::move(reason));
  // The path may name another file by now.
  FileDescriptor descriptor(above_standard(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)));
  if (!descriptor || ::fstat(descriptor.get(), &info) != 0) return failed(errno);
  if (std::string reason = refusal(info.st_mode); !reason.empty()) return refused(std::move(reason));
  return {.descriptor = std::move(descriptor), .bytes = info.st_size, .reason = {}};
}

std::string state_of(const InputFile& file) {
  struct stat info {};
  if (::fstat(file.descriptor.get(), &info) != 0) return {};
  return fmt::format("{}:{} {} {}.{:09}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

int64_t read_input(const InputFile& file, int64_t offset, void* data, int64_t bytes) {
  return read_all(file.descriptor.get(), offset, data, bytes);
}

std::string read_text_file(const std::string& what, const std::string& path, int64_t most_bytes) {
  const auto fail = [&](const std::string& reason) {
    throw FileError(fmt::format("cannot read the {} '{}': {}", what, shortened(path, 1000), reason));
  };
  const InputFile file = open_input(path);
  if (!file.reason.empty()) fail(file.reason);
  const auto too_long = [&] {
    fail(fmt::format("it is longer than {}, too long for such a file; name another one", format_bytes(most_bytes)));
  };
  if (file.bytes > most_bytes) too_long();
  // The reported length is not enough: /proc files report 0, and a file may grow while it is read.
  std::string text(static_cast<size_t>(std::max<int64_t>(file.bytes, 4096)), '\0');
  int64_t have = 0;
  for (;;) {
    const int64_t got = read_input(file, have, text.data() + have, static_cast<int64_t>(text.size()) - have);
    if (got < 0) fail(std::system_category().message(errno));
    have += got;
    if (have > most_bytes) too_long();
    if (have < static_cast<int64_t>(text.size())) break;
    text.resize(text.size() * 2);
  }
  text.resize(static_cast<size_t>(have));
  return text;
}

}  // namespace weft
