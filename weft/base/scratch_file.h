// ScratchFile: disk space that lasts as long as the object or the process: the file has no name, so even a kill leaves nothing
// behind.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

class ScratchFile {
 public:
  /// Creates the file in `folder`, which must exist. Throws InputError that names the folder on failure.
  explicit ScratchFile(std::string folder);

  /// Reserves `bytes` in the smallest hole that is large enough, else at the end; returns the offset. The space is zero-filled
  /// except where it was used before. Throws InputError if the disk is full, so no later write fails for that reason.
  int64_t reserve(int64_t bytes);
  /// Releases what was reserved at `begin`, in one piece or in parts.
  void release(int64_t begin, int64_t bytes);

  /// Like read(), throws Error with the folder and the cause if the device fails.
  void write(int64_t offset, const void* data, int64_t bytes);
  void read(int64_t offset, void* data, int64_t bytes) const;

  int64_t size() const { return size_; }

 private:
  int64_t grow(int64_t bytes);

  std::string folder_;
  FileDescriptor fd_;
  int64_t size_ = 0;
  std::map<int64_t, int64_t> holes_;  ///< begin and end; never adjacent
};

}  // namespace weft
