#include "weft/checkpoint/left_overs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "weft/base/file_descriptor.h"
#include "weft/base/system_host.h"
#include "weft/base/uninterrupted.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".partial";

/// Prefix of this host's files. Some network file systems keep locks on one host only, hence the host in the name.
std::string beginning() {
  std::string name = fmt::format(".weft-{}-", system_host_name());
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

/// True for "PID-NUMBER.partial" after the prefix: another host's name may begin with this one's.
bool is_numbered(std::string_view rest) {
  if (!rest.ends_with(kEnding)) return false;
  rest.remove_suffix(kEnding.size());
  const size_t dash = rest.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dash != std::string_view::npos && is_number(rest.substr(0, dash)) && is_number(rest.substr(dash + 1));
}

bool lock(int descriptor) {
  return uninterrupted([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }) == 0;
}

/// True if `path` names the very file of `descriptor`.
bool names(const std::string& path, int descriptor) {
  struct stat by_name {
  }, by_descriptor{};
  return ::lstat(path.c_str(), &by_name) == 0 && ::fstat(descriptor, &by_descriptor) == 0 &&
         by_name.st_dev == by_descriptor.st_dev && by_name.st_ino == by_descriptor.st_ino;
}

/// Opens for writing, because some network file systems require that for a lock. While it is locked, no other process removes
/// the file, and none creates another with that name before it is gone.
void remove_unless_held(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file && lock(file.get()) && names(path, file.get())) ::unlink(path.c_str());
}

}  // namespace

std::string partial_name(const std::string& folder, int number) {
  return (fs::path(folder) / fmt::format("{}{}-{}{}", beginning(), ::getpid(), number, kEnding)).string();
}

bool hold_partial(int descriptor) {
  if (!lock(descriptor) && errno == EWOULDBLOCK) return false;
  struct stat info {};
  return ::fstat(descriptor, &info) != 0 || info.st_nlink > 0;
}

void remove_left_overs(const std::string& folder) {
  const std::string begin = beginning();
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(begin) && is_numbered(std::string_view(name).substr(begin.size())))
      remove_unless_held(it->path().string());
  }
}

}  // namespace weft
