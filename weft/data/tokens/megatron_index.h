// The .idx that Megatron-LM keeps next to a .bin of token ids: their width, and where sequences and documents begin.
//
// Little-endian: "MMIDIDX\0\0", version (uint64), code of the width (uint8), number of sequences and of document marks (uint64
// each); then the length of each sequence (int32), the byte at which it begins (int64), and the marks (int64): the number of
// the first sequence of each document, and at the end the number of sequences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/tokens/token_type.h"

namespace weft {

/// Header of an index.
struct MegatronIndex {
  TokenType type = TokenType::u16;
  int64_t sequences = 0, marks = 0;
  int64_t bytes = 0;  ///< required size of its .bin
};

/// Returns the path of the index of "x.bin": "x.idx" if it exists and begins as Megatron's do; empty otherwise. Throws
/// InputError for one that is empty or ends within its header.
std::string megatron_index_of(const std::string& bin);

/// Reads the header and the end of the last sequence. Throws InputError for an index that is damaged or of another version, and
/// for ids that are not integers of 8, 16 or 32 bits.
MegatronIndex read_megatron_index(const std::string& path);

/// Returns the first token of each document. Throws InputError as above, and if sequences are not adjacent.
std::vector<int64_t> megatron_documents(const std::string& path);

}  // namespace weft
