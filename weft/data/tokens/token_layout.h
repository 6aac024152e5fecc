// Layout of a file's token ids: their width, and their place, which is the whole file or what follows a header.
//
// Supported headers: llm.c's (1 KiB; 20240520 for uint16, 20240801 for uint32), NumPy's (.npy of one dimension). A .bin next to
// Megatron's .idx holds only ids; the index gives width and documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/input_file.h"
#include "weft/data/tokens/token_type.h"

namespace weft {

/// Layout of one file.
struct TokenLayout {
  std::string_view format;  ///< "" without a header, "llm.c", "npy", "megatron"
  TokenType type = TokenType::u8;
  int64_t offset = 0;  ///< bytes before the first id
  int64_t count = 0;   ///< ids
  std::string index;   ///< path of Megatron's .idx
};

/// Bytes of an id, of any type but TokenType::as_file.
int64_t token_bytes(TokenType type);

/// Returns the layout of a file whose recipe says `type`: a header overrides the recipe, which decides for a file without one.
/// All bytes of a text are tokens. An empty file has no ids. Throws InputError for a file of another kind (base/file_kind.h),
/// for a length that does not fit its header or index or is not a multiple of the width, for TokenType::as_file if nothing says
/// the width, and if reading fails.
TokenLayout token_layout(const std::string& path, const InputFile& file, TokenType type);

}  // namespace weft
