// Standard output of the command: written so that a failure to write is an error. Whoever piped or redirected it into a file
// would otherwise take what is there for all.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Writes `text` in one piece, at once: a log that is watched should not lag behind. Throws Error when it cannot be written (a
/// full disk, a limit on file sizes).
void write_out(std::string_view text);

/// What fits a terminal that nobody has made wider.
inline constexpr size_t kColumns = 80;

/// A line broken at blanks into lines of at most kColumns, where that can be; what goes on stands `indent` deep.
std::string wrapped(std::string line, size_t indent);

/// Makes a write that would end this process by `signal` (SIGXFSZ beyond a limit on file sizes, SIGPIPE where nobody reads)
/// fail with a reason, from now on; but where the signal is handled or ignored already. Programs that this process starts are
/// as they were.
void survive(int signal);

}  // namespace weft
