// TokenType: how wide a token of a file is.
#pragma once

namespace weft {

/// The unsigned integer that a token is in a file; u16 and u32 are little-endian.
enum class TokenType { u8, u16, u32 };

}  // namespace weft
