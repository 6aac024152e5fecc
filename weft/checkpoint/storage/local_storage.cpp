#include "weft/checkpoint/storage/local_storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/input_file.h"
#include "weft/base/printable.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/uninterrupted.h"
#include "weft/base/without_signal.h"
#include "weft/checkpoint/atomic_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = ".weft.lock";

[[noreturn]] void fail(const std::string& path, const char* action, int error) {
  const char* advice = error == ENOSPC || error == EDQUOT ? "free some space, or keep fewer checkpoints (save.keep)"
                       : error == EFBIG                   ? "raise the limit on file sizes (ulimit -f)"
                                                          : "check the folder, or name another (save.folder)";
  throw InputError(fmt::format("{}: could not {}: {}; {}", path, action, std::system_category().message(error), advice));
}

/// Makes the names in a folder durable. Some file systems cannot, and need not.
void sync_folder(const std::string& folder) {
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor) fsync(descriptor.get());
}

/// Makes the folders, each of which its parent knows durably.
void make_folders(const std::string& folder) {
  std::error_code code;
  if (fs::is_directory(folder, code)) return;
  const std::string parent = fs::path(folder).parent_path().string();
  if (!parent.empty()) make_folders(parent);
  fs::create_directory(folder, code);
  std::error_code ignored;
  if (code && !fs::is_directory(folder, ignored)) fail(folder, "make the folder", code.value());
  sync_folder(parent.empty() ? "." : parent);
}

class LocalWriter : public StorageWriter {
 public:
  explicit LocalWriter(std::string path)
      : path_(std::move(path)),
        descriptor_(above_standard(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666))) {
    if (!descriptor_) fail(path_, "create the file", errno);
  }

  void write(const void* data, int64_t bytes) override {
    constexpr int64_t kLargest = int64_t{1} << 30;  // Linux writes at most 2 GiB in one call
    const WithoutSignal guard(SIGXFSZ);
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t done =
          uninterrupted([&] { return ::write(descriptor_.get(), at, static_cast<size_t>(std::min(bytes, kLargest))); });
      if (done <= 0) fail(path_, "write all of it", done < 0 ? errno : ENOSPC);
      at += done;
      bytes -= done;
      written_ += done;
      start_writing_back();
    }
  }

  void close() override {
    if (fsync(descriptor_.get()) != 0) fail(path_, "write all of it", errno);
    descriptor_.close();
    sync_folder(fs::path(path_).parent_path().string());
  }

 private:
  /// The disk begins before the last byte is there, so that close() has less to wait for.
  void start_writing_back() {
    constexpr int64_t kStride = int64_t{32} << 20;
    if (written_ - begun_ < kStride) return;
    sync_file_range(descriptor_.get(), begun_, written_ - begun_, SYNC_FILE_RANGE_WRITE);
    begun_ = written_;
  }

  std::string path_;
  FileDescriptor descriptor_;
  int64_t written_ = 0;
  int64_t begun_ = 0;  ///< bytes that the disk was told to write
};

class LocalReader : public StorageReader {
 public:
  explicit LocalReader(std::string path) : path_(std::move(path)), file_(open_input(path_)) {
    if (!file_.reason.empty()) throw InputError(fmt::format("{}: cannot read it: {}", path_, file_.reason));
  }
  int64_t size() const override { return file_.bytes; }
  void read(int64_t offset, void* data, int64_t bytes) override {
    const int64_t got = read_input(file_, offset, data, bytes);
    if (got < 0) throw InputError(fmt::format("{}: cannot read it: {}", path_, std::system_category().message(errno)));
    if (got < bytes)
      throw InputError(fmt::format("{}: it ends at byte {}, before the {} that are due", path_, offset + got, bytes));
  }

 private:
  std::string path_;
  InputFile file_;
};

/// The file of a folder's lock, open and locked.
FileDescriptor take_lock(const std::string& folder, const std::string& owner) {
  make_folders(folder);
  const std::string path = folder + "/" + kLockFile;
  FileDescriptor held(above_standard(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)));
  if (!held) fail(path, "create the file", errno);
  // Of the open file, not of this process: it goes with the last process that has it, however that ends.
  if (uninterrupted([&] { return flock(held.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) return held;  // a file system without locks
    std::string other(200, '\0');
    const ssize_t length = uninterrupted([&] { return pread(held.get(), other.data(), other.size(), 0); });
    other.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    throw InputError(fmt::format("{}: another run saves its checkpoints there: {}; wait for its end, or name another folder",
                                 folder, other.empty() ? "it does not say which" : printable(other)));
  }
  const bool told =
      ftruncate(held.get(), 0) == 0 && pwrite(held.get(), owner.data(), owner.size(), 0) == static_cast<ssize_t>(owner.size());
  if (!told) fail(path, "write all of it", errno);
  return held;
}

class LocalLock : public StorageLock {
 public:
  LocalLock(std::string folder, std::string owner)
      : folder_(std::move(folder)), owner_(std::move(owner)), held_(take_lock(folder_, owner_)) {}

  void keep() override {
    struct stat own {
    }, there{};
    const bool is_there = ::stat((folder_ + "/" + kLockFile).c_str(), &there) == 0;
    const bool same = is_there && fstat(held_.get(), &own) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
    if (!same) held_ = take_lock(folder_, owner_);
  }

 private:
  std::string folder_, owner_;
  FileDescriptor held_;
};

class LocalStorage : public Storage {
 public:
  explicit LocalStorage(std::string folder) : folder_(std::move(folder)) {
    while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
    if (folder_.empty() || folder_.find('\0') != std::string::npos) {
      throw InputError("a folder of checkpoints has an empty name, or a NUL in it; name a folder");
    }
  }

  const std::string& name() const override { return folder_; }

  std::unique_ptr<StorageWriter> create(const std::string& path) override {
    make_folders(fs::path(full(path)).parent_path().string());
    return std::make_unique<LocalWriter>(full(path));
  }

  std::unique_ptr<StorageReader> open(const std::string& path) override { return std::make_unique<LocalReader>(full(path)); }

  void write_text(const std::string& path, const std::string& text) override {
    make_folders(fs::path(full(path)).parent_path().string());
    write_file(full(path), text);
  }

  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    std::error_code code;
    for (fs::directory_iterator at(full(folder), code), end; !code && at != end; at.increment(code)) {
      names.push_back(at->path().filename().string());
    }
    if (code && code != std::errc::no_such_file_or_directory) {
      throw InputError(fmt::format("{}: cannot list it: {}", full(folder), code.message()));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  bool has(const std::string& path) override {
    std::error_code code;
    const fs::file_status status = fs::status(full(path), code);
    const bool absent = !code || code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory ||
                        code == std::errc::too_many_symbolic_link_levels;
    if (!absent) throw InputError(fmt::format("{}: cannot tell whether it is there: {}", full(path), code.message()));
    return fs::is_regular_file(status);
  }

  bool is_link(const std::string& path) override {
    std::error_code code;
    return fs::is_symlink(fs::symlink_status(full(path), code));
  }

  bool is_no_folder(const std::string& path) override {
    std::error_code code;
    const fs::file_status status = fs::status(full(path), code);
    return fs::exists(status) && !fs::is_directory(status);
  }

  void remove(const std::string& path) override {
    std::error_code code;
    fs::remove(full(path), code);
    if (code && code != std::errc::directory_not_empty)
      throw InputError(fmt::format("{}: cannot remove it: {}", full(path), code.message()));
  }

  void sync(const std::string& folder) override { sync_folder(full(folder)); }

  std::shared_ptr<StorageLock> lock(const std::string& owner) override { return std::make_shared<LocalLock>(folder_, owner); }

 private:
  std::string folder_;
};

}  // namespace

std::unique_ptr<Storage> local_storage(const std::string& folder) { return std::make_unique<LocalStorage>(folder); }

}  // namespace weft
