// ShardFiles: files that samples are read from at any place, wherever they are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/file_kind.h"
#include "weft/data/data_note.h"

namespace weft {

/// Some files, by number. Thread-safe.
class ShardFiles {
 public:
  virtual ~ShardFiles() = default;
  /// How many there are.
  virtual size_t count() const = 0;
  /// A file, as people named it.
  virtual const std::string& name(size_t number) const = 0;
  /// Bytes of a file.
  virtual int64_t size(size_t number) const = 0;
  /// As Dataset::passed_over(): what lies beside the files in a folder that was named as a whole.
  virtual DataNotes passed_over() const { return {}; }
  /// How much is best read at a time where much is read.
  virtual int64_t block_bytes() const = 0;
  /// Fills `out` with the bytes from `offset` on. Throws InputError that names the file where it ends before that, was
  /// replaced, or fails.
  virtual void read(size_t number, int64_t offset, void* out, int64_t bytes) const = 0;
};

/// Files of this machine, and what ShardFiles::passed_over() tells. Throws InputError for one that cannot be opened.
std::shared_ptr<const ShardFiles> local_shards(const std::vector<std::string>& paths, DataNotes passed_over = {});

/// What a file is, by its beginning.
FileKind kind_of(const ShardFiles& files, size_t number);

}  // namespace weft
