// AtomicFile: a file that is either wholly there or not there at all. Bytes go to a hidden file in the same folder
// (.weft-PID-N.partial); commit() makes them durable and renames them into place, replacing what was there. Without commit()
// the hidden file is removed and the old file stays as it was. A killed process leaves at most that hidden file behind.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

class AtomicFile {
 public:
  /// A link is followed: what it points to is replaced. Throws InputError where no file can be written at `path`.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws InputError when the disk is full or fails.
  void write(const void* data, size_t bytes);
  /// Once, as the last call.
  void commit();

 private:
  [[noreturn]] void fail(const char* action, int error) const;

  std::string path_;       ///< as the caller named it: for errors
  std::string target_;     ///< with links followed
  std::string temporary_;  ///< empty when it is gone
  int descriptor_ = -1;
};

/// Writes `text` as the whole of a file.
void write_file(const std::string& path, std::string_view text);

/// Throws InputError, as writing would, unless a file can be written at `path`; leaves nothing behind and an existing file
/// alone. For refusing a bad path before hours of training, not after.
void check_writable(const std::string& path);

}  // namespace weft
