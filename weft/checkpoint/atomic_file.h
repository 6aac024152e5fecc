// AtomicFile: a file that is either wholly there or not there at all. Bytes go to a file without a name in the same folder;
// commit() makes them durable and gives it its name. Without commit() the old file stays as it was, and nothing else is left,
// whatever ends the process. What replaces a file has its mode, and its owner where this process may give files away.
//
// What has no name cannot replace what has one: over an old file it is linked as .weft-HOST-PID-N.partial first, then renamed.
// Where the file system makes no file without a name (NFS, FAT, some FUSE) it has that one from the start. So a kill, there or
// between link and rename, leaves one behind; the next AtomicFile of the same host in that folder removes it. A writer holds a
// lock (flock) on its file as long as it lives, so no other's is taken for a left-over.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "weft/base/file_descriptor.h"

namespace weft {

/// A file that is there whole, or not at all.
class AtomicFile {
 public:
  /// Whether it has a name before it is whole.
  enum class Kind { unnamed_if_possible, named };

  /// A link is followed: what it points to is replaced. Throws InputError where no file can be written at `path`.
  explicit AtomicFile(const std::string& path, Kind kind = Kind::unnamed_if_possible);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws InputError when the disk is full or fails.
  void write(const void* data, size_t bytes);
  /// Makes the bytes durable and gives the file its name. Once, as the last call.
  void commit();

 private:
  bool open_unnamed(const std::string& folder);
  void open_named(const std::string& folder);
  void take_over_mode() const;
  /// Names the file temporary_ and renames that over an old file.
  void link_in_place();
  [[noreturn]] void fail(const char* action, int error) const;

  std::string path_;       ///< as the caller named it: for errors
  std::string target_;     ///< with links followed
  std::string temporary_;  ///< empty while it has no name, and when it has its own
  FileDescriptor descriptor_;
};

/// Writes `text` as the whole of a file.
void write_file(const std::string& path, std::string_view text);

/// Throws InputError, as writing would, unless a file can be written at `path`; leaves nothing behind and an existing file
/// alone. For refusing a bad path before hours of training, not after.
void check_writable(const std::string& path);

}  // namespace weft
