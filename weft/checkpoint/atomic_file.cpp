#include "weft/checkpoint/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/file_io.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/without_signal.h"
#include "weft/checkpoint/left_overs.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: cannot write it: {}", path, reason));
}

/// Returns the path that is really written, with links followed. Rejects what a rename must not replace: a folder, a device.
std::string resolve(const std::string& path) {
  if (path.empty()) throw InputError("cannot write to an empty path; name a file");
  if (path.find('\0') != std::string::npos) refuse(path, "the path contains a NUL; name another path");
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

std::string folder_of(const std::string& target) {
  const fs::path folder = fs::path(target).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// Path by which an unnamed file can be linked.
std::string own_name(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

bool link(int descriptor, const std::string& name) {
  return ::linkat(AT_FDCWD, own_name(descriptor).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, Kind kind) : path_(path), target_(resolve(path)) {
  const std::string folder = folder_of(target_);
  std::error_code code;
  if (!fs::exists(folder, code) && (!code || code == std::errc::no_such_file_or_directory)) {
    refuse(path, fmt::format("the folder {} does not exist; make it (mkdir -p) or name another path", folder));
  }
  remove_left_overs(folder);
  if (kind == Kind::named || !open_unnamed(folder)) open_named(folder);
  take_over_mode();
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

/// Copies mode and owner of the file to be replaced.
void AtomicFile::take_over_mode() const {
  struct stat old {};
  if (::stat(target_.c_str(), &old) != 0) return;
  // If this process may not change owner and group, the new group gets no more rights than everybody has.
  const bool has_group =
      fchown(descriptor_.get(), old.st_uid, old.st_gid) == 0 || fchown(descriptor_.get(), uid_t(-1), old.st_gid) == 0;
  const mode_t of_others = old.st_mode & S_IRWXO;
  const mode_t group = has_group ? old.st_mode & S_IRWXG : old.st_mode & (of_others << 3U);
  if (fchmod(descriptor_.get(), (old.st_mode & S_IRWXU) | group | of_others) != 0) {
    // This file system has no modes.
  }
}

/// Returns false where the file system makes no unnamed files, or none that can be linked (no /proc).
bool AtomicFile::open_unnamed(const std::string& folder) {
  descriptor_ = FileDescriptor(above_standard(open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666)));
  if (!descriptor_) return false;
  if (access(own_name(descriptor_.get()).c_str(), F_OK) != 0) {
    descriptor_.close();
    return false;
  }
  // Keeps it locked between link and rename.
  hold_partial(descriptor_.get());
  return true;
}

void AtomicFile::open_named(const std::string& folder) {
  for (int number = 0; temporary_.empty(); ++number) {
    const std::string name = partial_name(folder, number);
    descriptor_ = FileDescriptor(above_standard(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)));
    if (!descriptor_ && errno != EEXIST) fail("create a file in its folder", errno);  // EEXIST: another thread's file
    if (descriptor_ && hold_partial(descriptor_.get())) temporary_ = name;
  }
}

void AtomicFile::fail(const char* action, int error) const {
  const char* advice = error == EFBIG                       ? "raise the limit on file sizes (ulimit -f) or name another path"
                       : error == ENOSPC || error == EDQUOT ? "free some space or name another path"
                                                            : "name another path";
  refuse(path_, fmt::format("could not {}: {}; {}", action, std::system_category().message(error), advice));
}

void AtomicFile::write(const void* data, size_t bytes) {
  const WithoutSignal guard(SIGXFSZ);
  if (!write_all(descriptor_.get(), data, static_cast<int64_t>(bytes))) fail("write the whole file", errno);
}

void AtomicFile::link_in_place() {
  const std::string folder = folder_of(target_);
  for (int number = 0; temporary_.empty(); ++number) {
    const std::string name = partial_name(folder, number);
    if (link(descriptor_.get(), name)) {
      temporary_ = name;
    } else if (errno != EEXIST) {
      fail("put it in place", errno);
    }
  }
}

void AtomicFile::commit() {
  // The bytes must be on the disk before the name is: otherwise a power cut could leave an empty file under the old name.
  if (fsync(descriptor_.get()) != 0) fail("write the whole file", errno);
  if (temporary_.empty() && !link(descriptor_.get(), target_)) {
    if (errno != EEXIST) fail("put it in place", errno);
    link_in_place();
  }
  if (!temporary_.empty() && std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("put it in place", errno);
  temporary_.clear();
  descriptor_.close();
  const FileDescriptor folder(open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return;  // no read permission on the folder: the file is in place
  fsync(folder.get());  // not supported everywhere; the file is in place
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

void check_writable(const std::string& path) { AtomicFile file(path); }

}  // namespace weft
