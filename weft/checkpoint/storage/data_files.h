// DataFiles: where a checkpoint's data files are written and read: a Storage, or memory. Paths have '/' between their parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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

/// Files that are written and read by name.
class DataFiles {
 public:
  virtual ~DataFiles() = default;
  /// The place, as people named it: "runs/a", "s3://bucket/runs/a".
  virtual const std::string& name() const = 0;
  /// Begins a file; folders on its way are made. One that is there already is replaced.
  virtual std::unique_ptr<StorageWriter> create(const std::string& path) = 0;
  /// Opens a file that must be there. Throws DamageError where it is not.
  virtual std::unique_ptr<StorageReader> open(const std::string& path) = 0;

  /// `path` as people would name it.
  std::string full(const std::string& path) const { return path.empty() ? name() : name() + "/" + path; }
};

}  // namespace weft
