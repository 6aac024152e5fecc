// UTF-8, one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

/// A character and its length in bytes: 0 for invalid UTF-8.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

/// Returns the first character of a non-empty text. Overlong forms, surrogates and codes above U+10FFFF are not UTF-8.
Character first_character(std::string_view text);

/// Returns whether a byte continues a character, i.e. is not its first byte.
bool continues_character(char byte);

}  // namespace weft
