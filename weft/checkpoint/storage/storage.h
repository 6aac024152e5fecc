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

#include "weft/checkpoint/storage/data_files.h"

namespace weft {

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
class Storage : public DataFiles {
 public:
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
  /// All of a file. Throws InputError for one that is longer than `most_bytes`.
  std::string read_text(const std::string& path, int64_t most_bytes);
};

}  // namespace weft
