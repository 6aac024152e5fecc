// Text of a lock file: the holder, its process number, by which processes on the same machine check whether it is alive, and a
// count that grows while it is alive, for processes on other machines.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// File of a lock kept by the file system itself (flock).
inline constexpr const char* kLockFile = ".weft.lock";

/// Parsed text of a lock file.
struct LockText {
  std::string owner = {};   ///< description for users
  std::string system = {};  ///< system_identity() of its process; empty: unknown
  int64_t process = 0;      ///< process number on that system
  int64_t started = 0;      ///< its start time, from /proc, which distinguishes it from later processes with that number
  bool holds = false;       ///< true: its process has the lock; false: it asks for the lock
  int64_t beats = 0;        ///< number of times written
};

/// Returns the lock text of this process.
LockText own_lock_text(const std::string& owner);
/// Returns the content of a lock file; its length does not depend on the count.
std::string lock_file_text(const LockText& text);
/// Parses a file's content; for any other text, the owner is its first line.
LockText parse_lock_text(const std::string& text);

enum class HolderLife { lives, ended, unknown };
/// Returns whether the text's process is alive, if it is on this machine; otherwise `unknown`.
HolderLife life_of(const LockText& text);

}  // namespace weft
