// Members of a tar file, and where their bytes lie in it, by libarchive.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <string>

#include "weft/data/shard_files.h"

namespace weft {

/// A regular file in a tar file.
struct TarMember {
  std::string name;    ///< with its folders
  int64_t offset = 0;  ///< of its first byte in the tar file
  int64_t bytes = 0;   ///< its length
  std::string text;    ///< its contents, of those that were asked for
};

/// Goes once through file `number`, uncompressed, and hands its regular files out in order; of those whose name ends in
/// `text_ending`, and that have no more than 64 bytes, with their contents. Reads no more of the others than blocks bring.
/// Returns why the file is no whole tar file; empty where it is one. Throws InputError where reading fails.
std::string read_tar(const ShardFiles& files, size_t number, const std::string& text_ending,
                     c10::function_ref<void(TarMember)> take);

}  // namespace weft
