// TokenType: how wide a token of a file is.
#pragma once

namespace weft {

enum class TokenType { u8, u16, u32 };

}  // namespace weft
