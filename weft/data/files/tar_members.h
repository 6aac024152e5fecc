// Members of a tar file, and where their bytes lie in it, by libarchive.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <string>

#include "weft/data/files/shard_files.h"

namespace weft {

/// A regular file in a tar file, or a link to one.
struct TarMember {
  std::string name;      ///< with its folders
  int64_t offset = 0;    ///< of its first byte in the tar file
  int64_t bytes = 0;     ///< its length
  std::string text;      ///< its contents, of those that were asked for
  bool is_link = false;  ///< a symbolic or hard link, whose bytes are another's
};

/// How a tar file ends.
struct TarEnd {
  std::string cut = {};      ///< why it is no whole tar file; empty where it is one
  int64_t bytes_behind = 0;  ///< that follow its end mark and are no padding: of another tar file, perhaps, which is not read
};

/// Goes once through file `number`, uncompressed, and hands its regular files and links out in order; of those whose name ends
/// in `text_ending`, in any case, and that have no more than 64 bytes, with their contents. Reads no more of the others than
/// blocks bring. Throws InputError where reading fails.
TarEnd read_tar(const ShardFiles& files, size_t number, const std::string& text_ending,
                c10::function_ref<void(TarMember)> take);

}  // namespace weft
