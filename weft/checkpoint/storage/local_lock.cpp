#include "weft/checkpoint/storage/local_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

#include "weft/base/file_descriptor.h"
#include "weft/base/file_io.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/storage_error.h"
#include "weft/base/uninterrupted.h"
#include "weft/checkpoint/storage/claim_lock.h"
#include "weft/checkpoint/storage/local_files.h"
#include "weft/checkpoint/storage/lock_watch.h"

namespace weft {
namespace {

/// False on Lustre, where flock() may be local to one host without any sign of it.
bool has_shared_locks(int descriptor) {
  constexpr int64_t kLustre = 0x0BD00BD0;
  struct statfs info {};
  return fstatfs(descriptor, &info) != 0 || static_cast<int64_t>(info.f_type) != kLustre;
}

LockText read_lock_text(int descriptor) {
  std::string text(1024, '\0');
  const int64_t length = read_all(descriptor, 0, text.data(), static_cast<int64_t>(text.size()));
  text.resize(static_cast<size_t>(std::max<int64_t>(length, 0)));
  return parse_lock_text(text);
}

/// Returns a folder's lock file, open and locked; nullopt if the file system has no locks. The lock belongs to the open file,
/// not to this process: it ends with the last process that has the file open, however that process ends; if its host dies, once
/// the server notices.
std::optional<FileDescriptor> take_flock(const std::string& folder, const LockOptions& options) {
  make_folders(folder);
  const std::string path = folder + "/" + kLockFile;
  LockWatch watch(options);
  while (true) {
    FileDescriptor file(above_standard(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)));
    if (!file) fail_to_write(path, "create the file", errno);
    if (!has_shared_locks(file.get())) return std::nullopt;
    if (uninterrupted([&] { return flock(file.get(), LOCK_EX | LOCK_NB); }) == 0) return file;
    if (errno == EIO || errno == ESTALE || errno == ETIMEDOUT) fail_to_write(path, "lock it", errno);
    if (errno != EWOULDBLOCK) return std::nullopt;
    const LockText holder = read_lock_text(file.get());
    watch.wait_for(folder, holder, watch.judge(kLockFile, holder));
    watch.pause(folder, holder);
  }
}

class FlockLock : public StorageLock {
 public:
  FlockLock(std::string folder, const LockOptions& options, FileDescriptor held)
      : folder_(std::move(folder)), options_(options), text_(own_lock_text(options.owner)), held_(std::move(held)) {
    options_.on_wait = {};
    text_.holds = true;
    if (ftruncate(held_.get(), 0) != 0 || !write()) fail_to_write(folder_ + "/" + kLockFile, "write the whole file", errno);
    heart_.emplace(options.refresh, [this] {
      const std::lock_guard lock(mutex_);
      write();
    });
  }
  ~FlockLock() override {
    heart_.reset();
    if (ftruncate(held_.get(), 0) != 0) {
      // The text still names this process as the holder; that is harmless, as its lock ends here.
    }
  }

  bool keep() override {
    struct stat own {
    }, there{};
    const std::lock_guard lock(mutex_);
    const std::string path = folder_ + "/" + kLockFile;
    const int error = tried_again([&] { return ::stat(path.c_str(), &there) == 0 ? 0 : errno; });
    if (error != 0 && error != ENOENT && error != ENOTDIR) fail_to_read(path, "look for it", error);
    const bool same = error == 0 && fstat(held_.get(), &own) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
    if (same) return false;
    std::optional<FileDescriptor> again = take_flock(folder_, options_);
    if (!again) throw IoError(fmt::format("{}: locks no longer work there; check the disk or the network", folder_));
    held_ = std::move(*again);
    if (!write()) fail_to_write(folder_ + "/" + kLockFile, "write the whole file", errno);
    return true;
  }

 private:
  /// Writes in place, and through to the server: other hosts see the text when they open the file.
  bool write() {
    ++text_.beats;
    const std::string text = lock_file_text(text_);
    return write_all(held_.get(), 0, text.data(), static_cast<int64_t>(text.size())) && fsync(held_.get()) == 0;
  }

  std::mutex mutex_;  ///< guards state shared by keep() and the heartbeat
  std::string folder_;
  LockOptions options_;
  LockText text_;
  FileDescriptor held_;
  std::optional<Heartbeat> heart_;
};

}  // namespace

std::shared_ptr<StorageLock> lock_folder(const std::string& folder, const LockOptions& options,
                                         const std::function<std::unique_ptr<Storage>()>& open) {
  std::optional<FileDescriptor> held = take_flock(folder, options);
  if (!held) return std::make_shared<ClaimLock>(open(), options);
  const auto lock = std::make_shared<FlockLock>(folder, options, std::move(*held));
  wait_for_claims(*open(), options);
  return lock;
}

}  // namespace weft
