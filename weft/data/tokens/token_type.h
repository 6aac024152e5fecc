// TokenType: width of a token in a file.
#pragma once

namespace weft {

/// Unsigned integer type of a token in a file; u16 and u32 are little-endian.
enum class TokenType { u8, u16, u32 };

}  // namespace weft
