// DataFiles: writes and reads a checkpoint's data files, in a Storage or in memory. Paths have '/' between their parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace weft {

/// File being written, from the beginning. Without close() the file is garbage, to be removed.
class StorageWriter {
 public:
  virtual ~StorageWriter() = default;
  /// Appends. Throws InputError if there is no room, IoError if the device or the network fails.
  virtual void write(const void* data, int64_t bytes) = 0;
  /// Makes the whole file durable. Call last.
  virtual void close() = 0;
};

/// File being read.
class StorageReader {
 public:
  virtual ~StorageReader() = default;
  /// Length when opened.
  virtual int64_t size() const = 0;
  /// Fills `data` with the bytes at `offset`. Throws DamageError if the file is too short.
  virtual void read(int64_t offset, void* data, int64_t bytes) = 0;
};

/// Files written and read by name.
class DataFiles {
 public:
  virtual ~DataFiles() = default;
  /// The place as users give it: "runs/a", "s3://bucket/runs/a".
  virtual const std::string& name() const = 0;
  /// Starts a file, creating missing folders and replacing an existing file.
  virtual std::unique_ptr<StorageWriter> create(const std::string& path) = 0;
  /// Opens a file. Throws DamageError if it does not exist.
  virtual std::unique_ptr<StorageReader> open(const std::string& path) = 0;

  /// Returns `path` as users would write it.
  std::string full(const std::string& path) const { return path.empty() ? name() : name() + "/" + path; }
};

}  // namespace weft
