#include "weft/checkpoint/storage/local_storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "weft/base/file_descriptor.h"
#include "weft/base/file_io.h"
#include "weft/base/input_file.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/storage_error.h"
#include "weft/base/without_signal.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/checkpoint/storage/local_files.h"
#include "weft/checkpoint/storage/local_lock.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class LocalWriter : public StorageWriter {
 public:
  explicit LocalWriter(std::string path)
      : path_(std::move(path)),
        descriptor_(above_standard(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666))) {
    if (!descriptor_) fail_to_write(path_, "create the file", errno);
  }

  void write(const void* data, int64_t bytes) override {
    const WithoutSignal guard(SIGXFSZ);
    if (!write_all(descriptor_.get(), data, bytes)) fail_to_write(path_, "write the whole file", errno);
    written_ += bytes;
    start_writing_back();
  }

  void close() override {
    if (fsync(descriptor_.get()) != 0) fail_to_write(path_, "write the whole file", errno);
    descriptor_.close();
    sync_folder(fs::path(path_).parent_path().string());
  }

 private:
  /// Starts writing to disk early, so that close() has less to wait for.
  void start_writing_back() {
    constexpr int64_t kStride = int64_t{32} << 20;
    if (written_ - begun_ < kStride) return;
    sync_file_range(descriptor_.get(), begun_, written_ - begun_, SYNC_FILE_RANGE_WRITE);
    begun_ = written_;
  }

  std::string path_;
  FileDescriptor descriptor_;
  int64_t written_ = 0;
  int64_t begun_ = 0;  ///< bytes whose write-back has begun
};

class LocalReader : public StorageReader {
 public:
  explicit LocalReader(std::string path) : path_(std::move(path)) {
    const int error = tried_again([this] { return (file_ = open_input(path_)).error; });
    if (error != 0) fail_to_read(path_, "read it", error);
    if (!file_.reason.empty()) throw DamageError(fmt::format("{}: cannot read it: {}", path_, file_.reason));
  }
  int64_t size() const override { return file_.bytes; }
  void read(int64_t offset, void* data, int64_t bytes) override {
    int64_t got = 0;
    const int error = tried_again([&] { return (got = read_input(file_, offset, data, bytes)) < 0 ? errno : 0; });
    if (error != 0) fail_to_read(path_, "read it", error);
    if (got < bytes) throw DamageError(fmt::format("{}: it ends at byte {}, expected {}", path_, offset + got, offset + bytes));
  }

 private:
  std::string path_;
  InputFile file_;
};

class LocalStorage : public Storage {
 public:
  explicit LocalStorage(std::string folder) : folder_(std::move(folder)) {
    while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
    if (folder_.empty() || folder_.find('\0') != std::string::npos) {
      throw InputError("the name of the checkpoints' folder is empty or contains a NUL; name a folder");
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
    const int error = tried_again([&] {
      names.clear();
      std::error_code code;
      for (fs::directory_iterator at(full(folder), code), end; !code && at != end; at.increment(code)) {
        names.push_back(at->path().filename().string());
      }
      return code.value();
    });
    if (error != 0 && error != ENOENT) fail_to_read(full(folder), "list it", error);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::optional<int64_t> bytes_of(const std::string& path) override {
    struct stat info {};
    const int error = tried_again([&] { return ::stat(full(path).c_str(), &info) == 0 ? 0 : errno; });
    if (error == ENOENT || error == ENOTDIR || error == ELOOP) return std::nullopt;
    if (error != 0) fail_to_read(full(path), "look for it", error);
    return S_ISREG(info.st_mode) ? std::optional<int64_t>(info.st_size) : std::nullopt;
  }

  bool is_link(const std::string& path) override {
    std::error_code code;
    return fs::is_symlink(fs::symlink_status(full(path), code));
  }

  bool is_not_a_folder(const std::string& path) override {
    std::error_code code;
    const fs::file_status status = fs::status(full(path), code);
    return fs::exists(status) && !fs::is_directory(status);
  }

  void remove(const std::string& path) override {
    std::error_code code;
    fs::remove(full(path), code);
    if (code && code != std::errc::directory_not_empty)
      throw_storage_error(code.value(), fmt::format("{}: cannot remove it: {}", full(path), code.message()));
  }

  void sync(const std::string& folder) override { sync_folder(full(folder)); }

  std::shared_ptr<StorageLock> lock(const LockOptions& options) override {
    return lock_folder(folder_, options, [this] { return std::make_unique<LocalStorage>(folder_); });
  }

 private:
  std::string folder_;
};

}  // namespace

std::unique_ptr<Storage> local_storage(const std::string& folder) { return std::make_unique<LocalStorage>(folder); }

}  // namespace weft
