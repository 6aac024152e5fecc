// Members of a tar file and their offsets in it, by libarchive.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <string>

#include "weft/data/files/shard_files.h"

namespace weft {

/// Regular file in a tar file, or a link to one.
struct TarMember {
  std::string name;      ///< including its folders
  int64_t offset = 0;    ///< of its first byte in the tar file
  int64_t bytes = 0;     ///< its length
  std::string text;      ///< its contents, if requested
  bool is_link = false;  ///< a symbolic or hard link, whose bytes are those of another member
};

/// End of a tar file.
struct TarEnd {
  std::string cut = {};      ///< why it is not a whole tar file; empty: it is one
  int64_t bytes_behind = 0;  ///< bytes after its end mark that are not padding, perhaps another tar file; not read
};

/// Reads through file `number` once, uncompressed, and passes on its regular files and links in order. Includes the contents of
/// those of at most 64 bytes whose name ends in `text_ending`, in any case. Other contents are read only where they share a
/// block with a header. Throws InputError if reading fails.
TarEnd read_tar(const ShardFiles& files, size_t number, const std::string& text_ending,
                c10::function_ref<void(TarMember)> take);

}  // namespace weft
