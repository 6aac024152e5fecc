// Files that are read: opened only when they are regular ones. A device has no end, a FIFO or a socket may wait for ever, and
// opening some of them does things; they are refused before they are opened.
#pragma once

#include <cstdint>
#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

struct InputFile {
  FileDescriptor descriptor;  ///< of a regular file, or none
  int64_t bytes = 0;          ///< its length when it was opened
  std::string reason;         ///< why there is none: "No such file or directory", "it is a FIFO, not a regular file"
  int error = 0;              ///< errno, where a call failed
};

/// Opens a file; links are followed. Never waits and never throws: `reason` is for the caller's error, which knows what the
/// file is.
InputFile open_input(const std::string& path);

/// Reads up to `bytes` from `offset` on, and returns how many: fewer only where the file ends, -1 when reading fails (errno).
int64_t read_input(const InputFile& file, int64_t offset, void* data, int64_t bytes);

/// The text of a file that a person or a program wrote for weft to read whole. `what` names it in errors: "cannot read the
/// recipe 'x': ...". Throws FileError for a file that is not there, not regular, longer than `most_bytes` or fails.
std::string read_text_file(const std::string& what, const std::string& path, int64_t most_bytes);

}  // namespace weft
