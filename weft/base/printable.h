// Text that came from outside (values, names, paths, what other libraries say), made fit for one line of a terminal or a log.
// Every Error's text is, and whatever the command prints.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// `text` in valid UTF-8 without anything that a terminal acts on: control characters, line separators and marks that turn the
/// direction of writing become escapes (`\n`, `\x1b`, `\u202e`), as does each byte that is no UTF-8 (`\xff`). Plain text,
/// backslashes too, stays as it is, so doing it twice changes nothing.
std::string printable(std::string_view text);

/// printable(), and of what is longer than `most` bytes then, the beginning and the end: "aaaa[...2900 bytes...]aaaa".
/// Characters stay whole.
std::string shortened(std::string_view text, size_t most = 200);

}  // namespace weft
