// Where a file's token ids lie and how wide they are: from its first byte on, or behind a header that says so.
//
// Headers that are read: llm.c's (1 KiB; 20240520 of uint16, 20240801 of uint32), NumPy's (.npy of one dimension). A .bin
// beside Megatron's .idx is ids alone, of which the index tells width and documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/input_file.h"
#include "weft/data/tokens/token_type.h"

namespace weft {

/// The ids of one file.
struct TokenLayout {
  std::string_view format;  ///< "" for ids alone, "llm.c", "npy", "megatron"
  TokenType type = TokenType::u8;
  int64_t offset = 0;  ///< bytes before the first id
  int64_t count = 0;   ///< ids
  std::string index;   ///< of Megatron's: path of the .idx
};

/// Bytes of an id.
int64_t token_bytes(TokenType type);

/// What a file holds that a recipe says is of `type`: a header is taken at its word, ids alone at the recipe's. Of text all
/// bytes count. An empty file has none. Throws InputError for a file that is of another kind (base/file_kind.h), whose length
/// does not fit its header or index, or is no multiple of the width, and where reading it fails.
TokenLayout token_layout(const std::string& path, const InputFile& file, TokenType type);

}  // namespace weft
