// Object stores as Storage, built with Apache Arrow's file systems.
//
// A multipart upload that is not closed leaves no object; a text is one PUT. Failed requests are retried with growing pauses
// before they count as errors. Buckets have no folders: names imply them.
#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/filesystem/path_util.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/util/io_util.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/storage_error.h"
#include "weft/checkpoint/storage/bucket.h"
#include "weft/checkpoint/storage/claim_lock.h"

namespace weft {
namespace {

[[noreturn]] void fail_bucket(const std::string& what, const std::string& action, const arrow::Status& status) {
  const std::string& reason = status.message();
  const std::string text = fmt::format("{}: could not {}: {}; check the URL, AWS_ENDPOINT_URL, credentials and the network",
                                       what, action, shortened(reason.substr(0, reason.find('\n')), 600));
  if (arrow::internal::ErrnoFromStatus(status) == ENOENT) throw DamageError(text);
  throw IoError(text);
}

void require_ok(const arrow::Status& status, const std::string& what, const std::string& action) {
  if (!status.ok()) fail_bucket(what, action, status);
}

template <class T>
T take_ok(arrow::Result<T> result, const std::string& what, const std::string& action) {
  if (!result.ok()) fail_bucket(what, action, result.status());
  return std::move(result).ValueUnsafe();
}

/// Starts Arrow's S3, which runs threads of its own; close_buckets() ends them.
void start_s3() {
  static std::once_flag once;
  std::call_once(once, [] {
    arrow::fs::S3GlobalOptions options = arrow::fs::S3GlobalOptions::Defaults();
    options.log_level = arrow::fs::S3LogLevel::Off;  // errors are thrown instead
    require_ok(arrow::fs::InitializeS3(options), "S3", "start");
  });
}

/// Returns the file system of a URL, and sets `path` to the path in it.
std::shared_ptr<arrow::fs::FileSystem> open_file_system(const std::string& url, std::string& path) {
  if (!url.starts_with("s3://")) {
    return take_ok(arrow::fs::FileSystemFromUri(url, &path), url, "open it");
  }
  start_s3();
  arrow::fs::S3Options options = take_ok(arrow::fs::S3Options::FromUri(url, &path), url, "read the URL");
  constexpr int64_t kAttempts = 5;
  options.retry_strategy = arrow::fs::S3RetryStrategy::GetAwsStandardRetryStrategy(kAttempts);
  options.connect_timeout = 5.0;
  options.request_timeout = 30.0;
  options.background_writes = true;
  return take_ok(arrow::fs::S3FileSystem::Make(options), url, "open it");
}

class BucketWriter : public StorageWriter {
 public:
  BucketWriter(std::string what, std::shared_ptr<arrow::io::OutputStream> out) : what_(std::move(what)), out_(std::move(out)) {}
  ~BucketWriter() override {
    if (!out_->closed()) (void)out_->Abort();
  }
  void write(const void* data, int64_t bytes) override { require_ok(out_->Write(data, bytes), what_, "write it"); }
  void close() override { require_ok(out_->Close(), what_, "write it"); }

 private:
  std::string what_;
  std::shared_ptr<arrow::io::OutputStream> out_;
};

class BucketReader : public StorageReader {
 public:
  BucketReader(std::string what, std::shared_ptr<arrow::io::RandomAccessFile> file)
      : what_(std::move(what)), file_(std::move(file)), size_(take_ok(file_->GetSize(), what_, "read it")) {}
  int64_t size() const override { return size_; }
  void read(int64_t offset, void* data, int64_t bytes) override {
    const int64_t got = take_ok(file_->ReadAt(offset, bytes, data), what_, "read it");
    if (got < bytes) throw DamageError(fmt::format("{}: it ends at byte {}, expected {}", what_, offset + got, offset + bytes));
  }

 private:
  std::string what_;
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  int64_t size_;
};

class Bucket : public Storage {
 public:
  explicit Bucket(std::string url) : url_(std::move(url)) {
    while (url_.back() == '/') url_.pop_back();
    if (url_.find('?') != std::string::npos) {
      throw InputError(
          fmt::format("{}: the URL must not contain '?'; set endpoint and region with AWS_ENDPOINT_URL and AWS_REGION", url_));
    }
    file_system_ = open_file_system(url_, root_);
  }

  const std::string& name() const override { return url_; }

  std::unique_ptr<StorageWriter> create(const std::string& path) override {
    return std::make_unique<BucketWriter>(full(path),
                                          take_ok(file_system_->OpenOutputStream(within(path)), full(path), "write it"));
  }
  std::unique_ptr<StorageReader> open(const std::string& path) override {
    return std::make_unique<BucketReader>(full(path),
                                          take_ok(file_system_->OpenInputFile(within(path)), full(path), "read it"));
  }
  void write_text(const std::string& path, const std::string& text) override {
    const std::unique_ptr<StorageWriter> file = create(path);
    file->write(text.data(), static_cast<int64_t>(text.size()));
    file->close();
  }
  std::vector<std::string> list(const std::string& folder) override {
    arrow::fs::FileSelector selector;
    selector.base_dir = within(folder);
    selector.allow_not_found = true;
    std::vector<std::string> names;
    for (const arrow::fs::FileInfo& info : take_ok(file_system_->GetFileInfo(selector), full(folder), "list it")) {
      names.push_back(info.base_name());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::optional<int64_t> bytes_of(const std::string& path) override {
    const arrow::fs::FileInfo found = info(path);
    return found.type() == arrow::fs::FileType::File ? std::optional<int64_t>(found.size()) : std::nullopt;
  }
  void remove(const std::string& path) override {
    const arrow::fs::FileType type = info(path).type();
    if (type == arrow::fs::FileType::File) {
      require_ok(file_system_->DeleteFile(within(path)), full(path), "remove it");
    } else if (type == arrow::fs::FileType::Directory && list(path).empty()) {
      require_ok(file_system_->DeleteDir(within(path)), full(path), "remove it");
    }
  }
  std::shared_ptr<StorageLock> lock(const LockOptions& options) override {
    return std::make_shared<ClaimLock>(std::make_unique<Bucket>(url_), options);
  }

  arrow::fs::FileInfo info(const std::string& path) {
    return take_ok(file_system_->GetFileInfo(within(path)), full(path), "look for it");
  }

 private:
  std::string within(const std::string& path) const { return path.empty() ? root_ : root_ + "/" + path; }

  std::string url_, root_;
  std::shared_ptr<arrow::fs::FileSystem> file_system_;
};

}  // namespace

void close_buckets() {
  if (arrow::fs::IsS3Initialized()) (void)arrow::fs::FinalizeS3();
}

std::unique_ptr<Storage> open_bucket(const std::string& url) {
  for (const char* scheme : {"s3://", "gs://", "gcs://", "abfs://", "abfss://"}) {
    if (url.starts_with(scheme)) return std::make_unique<Bucket>(url);
  }
  throw InputError(fmt::format("{}: unknown store; use s3://, gs:// or abfs:// (docs/checkpoints.md)", url));
}

}  // namespace weft
