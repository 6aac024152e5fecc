// Makes text from outside (values, names, paths, messages of other libraries) safe for one line of a terminal or a log. Applied
// to every Error and to all output of the command.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Returns `text` as valid UTF-8 without anything that a terminal acts on: control characters, line separators and marks that
/// change the writing direction become escapes (`\n`, `\x1b`, `\u202e`), as does each byte that is not UTF-8 (`\xff`). Plain
/// text, including backslashes, is unchanged, so the function is idempotent.
std::string printable(std::string_view text);

/// Returns printable(), with the middle of a text longer than `most` bytes cut out: "aaaa[...2900 bytes...]aaaa". Characters
/// stay whole.
std::string shortened(std::string_view text, size_t most = 200);

}  // namespace weft
