// TokenType: width of a token in a file.
#pragma once

namespace weft {

/// Unsigned integer type of a token in a file; u16 and u32 are little-endian. `as_file`: of ids, as wide as the file's header
/// or index says.
enum class TokenType { u8, u16, u32, as_file };

}  // namespace weft
