#include "weft/checkpoint/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "weft/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: cannot write it: {}", path, reason));
}

/// Where the file really goes. Refuses what a rename must not replace: a folder, a device.
std::string resolve(const std::string& path) {
  if (path.empty()) throw InputError("cannot write to an empty path; name a file");
  std::error_code code;
  fs::path target = path;
  // Not fs::canonical(): a link to a file that does not exist yet is followed too. A loop of links ends at status().
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(target, code)); ++links) {
    target = target.parent_path() / fs::read_symlink(target, code);
  }
  const fs::file_status status = fs::status(target, code);
  if (fs::is_directory(status)) refuse(path, "it is a folder; name a file in it");
  if (fs::exists(status) && !fs::is_regular_file(status)) refuse(path, "it is not a regular file; name another path");
  if (!target.has_filename()) refuse(path, "it names no file; add a file name");
  if (code && status.type() != fs::file_type::not_found) refuse(path, code.message() + "; name another path");
  return target.string();
}

fs::path folder_of(const std::string& target) {
  const fs::path folder = fs::path(target).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(resolve(path)) {
  const fs::path folder = folder_of(target_);
  std::error_code code;
  if (!fs::exists(folder, code) && (!code || code == std::errc::no_such_file_or_directory)) {
    refuse(path, fmt::format("the folder {} does not exist; make it (mkdir -p) or name another path", folder.string()));
  }
  for (int number = 0; descriptor_ < 0; ++number) {
    temporary_ = (folder / fmt::format(".weft-{}-{}.partial", getpid(), number)).string();
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    // Another thread's, or one that a killed process of the same id left.
    if (descriptor_ < 0 && errno != EEXIST) {
      temporary_.clear();
      fail("create a file in its folder", errno);
    }
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* action, int error) const {
  const char* advice =
      error == ENOSPC || error == EDQUOT || error == EFBIG ? "free some space or name another path" : "name another path";
  refuse(path_, fmt::format("could not {}: {}; {}", action, std::system_category().message(error), advice));
}

void AtomicFile::write(const void* data, size_t bytes) {
  constexpr size_t kLargest = size_t{1} << 30;  // Linux writes at most 2 GiB in one call
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(descriptor_, at, std::min(bytes, kLargest));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("write all of it", done < 0 ? errno : ENOSPC);
    at += done;
    bytes -= static_cast<size_t>(done);
  }
}

void AtomicFile::commit() {
  // The bytes must be on the disk before the name is: otherwise a power cut could leave an empty file under the old name.
  if (fsync(descriptor_) != 0) fail("write all of it", errno);
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("write all of it", errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("put it in place", errno);
  temporary_.clear();
  const int folder = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not read: the file is in place all the same
  fsync(folder);           // some file systems cannot; the file is in place all the same
  close(folder);
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

void check_writable(const std::string& path) { AtomicFile file(path); }

}  // namespace weft
