// What the file of a lock says: who holds it, by what processes of the same machine tell whether that one lives, and a count
// that moves while it does, for those of other machines.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// The file of a lock that the file system itself keeps (flock).
inline constexpr const char* kLockFile = ".weft.lock";

/// Such a text, in lines.
struct LockText {
  std::string owner = {};   ///< for people
  std::string system = {};  ///< system_identity() of its process; empty: not told
  int64_t process = 0;      ///< its number there
  int64_t started = 0;      ///< when that began, by /proc: tells it from a later one of that number
  bool holds = false;       ///< it has the lock, rather than asks for it
  int64_t beats = 0;        ///< how often it was written
};

/// That of this process.
LockText own_lock_text(const std::string& owner);
/// As a file says it: of one length, whatever the count.
std::string lock_file_text(const LockText& text);
/// What a file says; of any other text, its first line as the owner.
LockText parse_lock_text(const std::string& text);

enum class HolderLife { lives, ended, unknown };
/// Whether the process of the text lives, where this one is on the same machine; `unknown` elsewhere.
HolderLife life_of(const LockText& text);

}  // namespace weft
