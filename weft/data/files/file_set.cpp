#include "weft/data/files/file_set.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr size_t kMostOpen = 64;  // far below any limit on open files (ulimit -n), shared with ranks and back ends

constexpr const char* kLeaveIt = "do not change data while a training reads it";

struct stat status_of(const InputFile& file) {
  struct stat info {};
  ::fstat(file.descriptor.get(), &info);
  return info;
}

}  // namespace

size_t FileSet::add(std::string path, InputFile file) {
  const struct stat info = status_of(file);
  members_.push_back({std::move(path), info.st_dev, info.st_ino, file.bytes});
  const std::lock_guard lock(mutex_);
  keep(members_.size() - 1, std::move(file));
  return members_.size() - 1;
}

void FileSet::read(size_t number, int64_t offset, void* out, int64_t bytes) const {
  const Member& member = members_[number];
  const std::shared_ptr<const InputFile> file = opened(number);
  const int64_t got = read_input(*file, offset, out, bytes);
  if (got < 0) throw InputError(fmt::format("{}: reading failed: {}", member.path, std::system_category().message(errno)));
  if (got < bytes) throw_cut_off(member, status_of(*file).st_size);
}

void FileSet::throw_cut_off(const Member& member, int64_t bytes) {
  throw InputError(
      fmt::format("{}: truncated while in use, from {} bytes to {}; {}", member.path, member.bytes, bytes, kLeaveIt));
}

std::shared_ptr<const InputFile> FileSet::opened(size_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Opened& one) { return one.number == number; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front().file;
  }
  const Member& member = members_[number];
  InputFile file = open_input(member.path);
  if (!file.reason.empty()) {
    throw InputError(fmt::format("{}: cannot be opened again: {}; {}", member.path, file.reason, kLeaveIt));
  }
  const struct stat info = status_of(file);
  if (info.st_dev != member.device || info.st_ino != member.inode) {
    throw InputError(fmt::format("{}: replaced by another file while in use; {}", member.path, kLeaveIt));
  }
  if (file.bytes < member.bytes) throw_cut_off(member, file.bytes);
  return keep(number, std::move(file));
}

/// Requires the lock.
std::shared_ptr<const InputFile> FileSet::keep(size_t number, InputFile file) const {
  if (open_.size() == kMostOpen) open_.pop_back();
  open_.push_front({number, std::make_shared<const InputFile>(std::move(file))});
  return open_.front().file;
}

}  // namespace weft
