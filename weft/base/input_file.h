// Input files: only regular files are opened. A device has no end, a FIFO or a socket may block forever, and opening some of
// them has side effects, so they are refused before they are opened.
#pragma once

#include <cstdint>
#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

struct InputFile {
  FileDescriptor descriptor;  ///< open if the file is regular
  int64_t bytes = 0;          ///< length at opening
  std::string reason;         ///< why it is not open: "No such file or directory", "it is a FIFO, not a regular file"
  int error = 0;              ///< errno of a failed call
};

/// Opens a file, following links. Never blocks and never throws: the caller, which knows the file's purpose, puts `reason` into
/// its error.
InputFile open_input(const std::string& path);

/// Text that differs for other files and, as long as clocks tick, for another content: device, inode, size, time of change.
std::string state_of(const InputFile& file);

/// Reads up to `bytes` from `offset`. Returns the bytes read: fewer only at the end of the file, -1 on failure (errno).
int64_t read_input(const InputFile& file, int64_t offset, void* data, int64_t bytes);

/// Reads a whole text file. `what` names it in errors: "cannot read the recipe 'x': ...". Throws FileError for a file that is
/// missing, not regular, longer than `most_bytes` or unreadable.
std::string read_text_file(const std::string& what, const std::string& path, int64_t most_bytes);

}  // namespace weft
