// UTF-8, a character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

/// A character, and how many bytes it takes: 0 where there is no UTF-8.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

/// The first character of a text that is not empty. Longer forms than need be, surrogates and what lies above U+10FFFF are no
/// UTF-8.
Character first_character(std::string_view text);

/// Whether a byte is one of a character, but not its first.
bool continues_character(char byte);

}  // namespace weft
