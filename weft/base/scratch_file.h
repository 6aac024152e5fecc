// ScratchFile: room on disk that lasts as long as the object, or as the process: the file has no name, so that even a kill
// leaves nothing behind.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

class ScratchFile {
 public:
  /// Makes the file in `folder`, which must exist. Throws InputError, naming the folder, when it cannot be made there.
  explicit ScratchFile(std::string folder);

  /// Room for `bytes`, in the smallest hole that is large enough, or else at the end; returns where it begins. Zero-filled but
  /// for what was released. Throws InputError when the disk has not enough, so that no later write fails for that.
  int64_t reserve(int64_t bytes);
  /// Gives back what was reserved at `begin`, in one piece or in parts.
  void release(int64_t begin, int64_t bytes);

  /// Throws Error, naming folder and cause, when the device fails; so does read().
  void write(int64_t offset, const void* data, int64_t bytes);
  void read(int64_t offset, void* data, int64_t bytes) const;

  int64_t size() const { return size_; }

 private:
  int64_t grow(int64_t bytes);

  std::string folder_;
  FileDescriptor fd_;
  int64_t size_ = 0;
  std::map<int64_t, int64_t> holes_;  ///< begin and end; none touches another
};

}  // namespace weft
