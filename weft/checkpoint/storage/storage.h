// Storage: a folder of checkpoints, on disk or in a bucket. Paths are relative to it, with '/' between their parts.
//
// Files made by create() and write_text() are complete once close() or write_text() has returned, even after a power cut; until
// then a reader may see no file or a part of it. Not thread-safe: each thread opens its own Storage. Reads that fail in the
// device or the network are retried a few times before they throw IoError (base/storage_error.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint/storage/data_files.h"

namespace weft {

/// Holds a storage for one run while it lives.
class StorageLock {
 public:
  virtual ~StorageLock() = default;
  /// Checks that the storage is still held, and takes it again if its folder was removed meanwhile or this process paused for
  /// long. Returns true then, because others may have written meanwhile. Throws HeldError if another run has taken it.
  virtual bool keep() { return false; }
};

/// Owner of a lock, and how long it waits. A dead holder is waited for until its death is known: immediately on its own
/// machine, elsewhere once it has been silent for `stale` by the waiting process's clock.
struct LockOptions {
  std::string owner;                                     ///< shown to processes that are refused: "process 12 on host a"
  std::chrono::milliseconds refresh{15'000};             ///< interval of the holder's heartbeats
  std::chrono::milliseconds stale{60'000};               ///< silence after which a holder counts as dead
  std::chrono::milliseconds patience{0};                 ///< how long to wait for a live holder
  std::function<void(const std::string&)> on_wait = {};  ///< called once, with the reason of the first wait
};

/// A folder of files.
class Storage : public DataFiles {
 public:
  /// Writes a file atomically: readers see all of the text, or the file as it was before.
  virtual void write_text(const std::string& path, const std::string& text) = 0;
  /// Names of the files and folders in a folder ("" for the storage itself), in order; empty if the folder does not exist.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  /// Length of a file; nullopt if it does not exist. Throws InputError if that cannot be determined.
  virtual std::optional<int64_t> bytes_of(const std::string& path) = 0;
  /// True if the file exists. Throws as bytes_of() does.
  bool has(const std::string& path) { return bytes_of(path).has_value(); }
  /// True if a path refers to another place: a symbolic link.
  virtual bool is_link(const std::string& /*path*/) { return false; }
  /// True if something other than a folder exists there.
  virtual bool is_not_a_folder(const std::string& path) { return has(path); }
  /// Removes a file or an empty folder. A missing path or a folder that is not empty is left alone.
  virtual void remove(const std::string& path) = 0;

  /// Makes removals from a folder durable.
  virtual void sync(const std::string& /*folder*/) {}
  /// Holds the storage for one run until the result is destroyed or the process ends. Throws HeldError, with the owner's text,
  /// if another live run has it.
  virtual std::shared_ptr<StorageLock> lock(const LockOptions& options) = 0;
  /// Returns the whole file. Throws InputError if it is longer than `most_bytes`.
  std::string read_text(const std::string& path, int64_t most_bytes);
};

}  // namespace weft
