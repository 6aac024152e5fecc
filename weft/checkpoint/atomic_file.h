// AtomicFile: a file that appears whole or not at all. Bytes go to an unnamed file in the same folder; commit() makes them
// durable and gives the file its name. Without commit() the old file stays as it was and nothing else is left, however the
// process ends. The new file takes the old one's mode, and its owner if this process may change owners. An unnamed file cannot
// replace a named one: to replace a file, it is first linked as .weft-HOST-PID-N.partial, then renamed. Where the file system
// cannot make unnamed files (NFS, FAT, some FUSE), the file has that name from the start. A kill then, or between link and
// rename, leaves a partial file, which the next AtomicFile of the same host in that folder removes. A writer keeps its file
// locked (flock), so a file in use is never taken for a left-over.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "weft/base/file_descriptor.h"

namespace weft {

/// File that appears whole or not at all.
class AtomicFile {
 public:
  /// Named: the file has its temporary name before it is whole.
  enum class Kind { unnamed_if_possible, named };

  /// Follows links: the link's target is replaced. Throws InputError if no file can be written at `path`.
  explicit AtomicFile(const std::string& path, Kind kind = Kind::unnamed_if_possible);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws InputError when the disk is full or fails.
  void write(const void* data, size_t bytes);
  /// Makes the bytes durable and gives the file its name. Call once, last.
  void commit();

 private:
  bool open_unnamed(const std::string& folder);
  void open_named(const std::string& folder);
  void take_over_mode() const;
  /// Links the file as temporary_ and renames it over the old file.
  void link_in_place();
  [[noreturn]] void fail(const char* action, int error) const;

  std::string path_;       ///< as the caller gave it, for errors
  std::string target_;     ///< with links followed
  std::string temporary_;  ///< empty while the file is unnamed, and once it has its final name
  FileDescriptor descriptor_;
};

/// Writes a file whose whole content is `text`.
void write_file(const std::string& path, std::string_view text);

/// Throws the InputError that writing would throw, unless a file can be written at `path`. Leaves no file behind and does not
/// change an existing one. Rejects a bad path before hours of training, not after.
void check_writable(const std::string& path);

}  // namespace weft
