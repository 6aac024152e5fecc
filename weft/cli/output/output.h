// Standard output of the command. A failed write is an error, because a reader of the pipe or file would otherwise take partial
// output for all of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Writes `text` in one piece and flushes, so that a watched log does not lag. Throws Error if it cannot be written (a full
/// disk, a limit on file sizes).
void write_out(std::string_view text);

/// Width of a default terminal.
inline constexpr size_t kColumns = 80;

/// Breaks a line at blanks into lines of at most kColumns, where possible; continuation lines are indented by `indent`.
std::string wrapped(std::string line, size_t indent);

/// Makes writes that would end this process by `signal` (SIGXFSZ beyond a limit on file sizes, SIGPIPE without a reader) fail
/// with an error instead, unless the signal is already handled or ignored. Programs that this process starts are not affected.
void survive(int signal);

}  // namespace weft
