// ShardFiles: files with random access to their samples, wherever they are stored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/file_kind.h"
#include "weft/data/data_note.h"

namespace weft {

/// Files by number. Thread-safe.
class ShardFiles {
 public:
  virtual ~ShardFiles() = default;
  /// Number of files.
  virtual size_t count() const = 0;
  /// Name of a file as the user gave it.
  virtual const std::string& name(size_t number) const = 0;
  /// Size of a file in bytes.
  virtual int64_t size(size_t number) const = 0;
  /// As Dataset::passed_over(): other content of a folder that was given as a whole.
  virtual DataNotes passed_over() const { return {}; }
  /// Best size of one read when reading through a file.
  virtual int64_t block_bytes() const = 0;
  /// Fills `out` with the bytes at `offset`. Throws InputError, naming the file, if it is too short, was replaced, or cannot be
  /// read.
  virtual void read(size_t number, int64_t offset, void* out, int64_t bytes) const = 0;
};

/// Opens local files; `passed_over` is for ShardFiles::passed_over(). Throws InputError for a file that cannot be opened.
std::shared_ptr<const ShardFiles> local_shards(const std::vector<std::string>& paths, DataNotes passed_over = {});

/// Detects a file's kind from its first bytes.
FileKind kind_of(const ShardFiles& files, size_t number);

}  // namespace weft
