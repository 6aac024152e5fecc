// Storage: a folder that checkpoints are kept in, on disk or in a bucket. Paths are below it, with '/' between their parts.
//
// What create() and write_text() make is there whole once close() or write_text() has returned, also after a power cut; until
// then a reader may see none of it, or a part. Nothing here is shared between threads: each has a Storage of its own. What a
// device or the network fails to read is tried again a few times, and then an IoError (base/storage_error.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// A file that is being written, from its beginning on. Without close() what was written is rubbish, to be removed.
class StorageWriter {
 public:
  virtual ~StorageWriter() = default;
  /// Appends. Throws InputError when there is no room, IoError when the device or the network fails.
  virtual void write(const void* data, int64_t bytes) = 0;
  /// Makes all of it durable; the last call.
  virtual void close() = 0;
};

/// A file that is read.
class StorageReader {
 public:
  virtual ~StorageReader() = default;
  /// Its length when it was opened.
  virtual int64_t size() const = 0;
  /// Fills `data` with the bytes from `offset` on. Throws DamageError where it ends before that.
  virtual void read(int64_t offset, void* data, int64_t bytes) = 0;
};

/// Holds a storage for one run while it lives.
class StorageLock {
 public:
  virtual ~StorageLock() = default;
  /// Sees to it that the storage is still held: takes it anew where somebody removed its folder meanwhile, or this process
  /// stood still for long; true then, as others may have written to it meanwhile. Throws HeldError where another run has it by
  /// now.
  virtual bool keep() { return false; }
};

/// Who asks for a lock, and what it waits for. One whose holder has died is waited for until that is known: at once on the
/// holder's own machine, elsewhere once the holder has been silent for `stale`, by the clock of who waits.
struct LockOptions {
  std::string owner;                                     ///< told to those that are refused: "process 12 on host a"
  std::chrono::milliseconds refresh{15'000};             ///< between signs of life of the holder
  std::chrono::milliseconds stale{60'000};               ///< without any, the holder has died
  std::chrono::milliseconds patience{0};                 ///< for which a holder that lives is waited for
  std::function<void(const std::string&)> on_wait = {};  ///< told, once, what is waited for first
};

/// A folder of files.
class Storage {
 public:
  virtual ~Storage() = default;
  /// The folder, as people named it: "runs/a", "s3://bucket/runs/a".
  virtual const std::string& name() const = 0;
  /// Begins a file; folders on its way are made. One that is there already is replaced.
  virtual std::unique_ptr<StorageWriter> create(const std::string& path) = 0;
  /// Opens a file that must be there. Throws DamageError where it is not.
  virtual std::unique_ptr<StorageReader> open(const std::string& path) = 0;
  /// Writes a file whole: it is there with all of the text, or as it was before.
  virtual void write_text(const std::string& path, const std::string& text) = 0;
  /// Names of the files and folders in a folder ("" for the storage itself), in order; none where there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  /// The length of a file; none where there is no such file. Throws InputError where that cannot be told.
  virtual std::optional<int64_t> bytes_of(const std::string& path) = 0;
  /// Whether there is a file. Throws as bytes_of().
  bool has(const std::string& path) { return bytes_of(path).has_value(); }
  /// Whether a path names something of another place: a symbolic link.
  virtual bool is_link(const std::string& /*path*/) { return false; }
  /// Whether there is something else than a folder.
  virtual bool is_no_folder(const std::string& path) { return has(path); }
  /// Removes a file, or a folder that is empty. What is not there, or not empty, stays as it is.
  virtual void remove(const std::string& path) = 0;

  /// Makes durable what was removed from a folder.
  virtual void sync(const std::string& /*folder*/) {}
  /// Holds the storage for one run until what it returns goes, or the process ends. Throws HeldError, with the owner's text,
  /// where another run has it and lives.
  virtual std::shared_ptr<StorageLock> lock(const LockOptions& options) = 0;

  /// `path` as people would name it.
  std::string full(const std::string& path) const { return path.empty() ? name() : name() + "/" + path; }
  /// All of a file. Throws InputError for one that is longer than `most_bytes`.
  std::string read_text(const std::string& path, int64_t most_bytes);
};

}  // namespace weft
