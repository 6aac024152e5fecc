// The .idx that Megatron-LM keeps beside a .bin of token ids: their width, and where sequences and documents begin.
//
// Little-endian: "MMIDIDX\0\0", version (uint64), code of the width (uint8), number of sequences and of document marks (uint64
// each); then the length of each sequence (int32), the byte at which it begins (int64), and the marks (int64): numbers of the
// sequences with which documents begin, and at the end how many sequences there are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/tokens/token_type.h"

namespace weft {

/// What the header of an index tells.
struct MegatronIndex {
  TokenType type = TokenType::u16;
  int64_t sequences = 0, marks = 0;
  int64_t bytes = 0;  ///< that its .bin must have
};

/// The path of the index of "x.bin": "x.idx" where there is one that begins as Megatron's do; empty otherwise.
/// Throws InputError for one that is empty or ends within its header.
std::string megatron_index_of(const std::string& bin);

/// Reads the header, and where the last sequence ends. Throws InputError for an index that is damaged or of another version,
/// and for ids that are no whole numbers of 8, 16 or 32 bits.
MegatronIndex read_megatron_index(const std::string& path);

/// Where documents begin, in tokens. Throws InputError as above, and where sequences do not lie one after another.
std::vector<int64_t> megatron_documents(const std::string& path);

}  // namespace weft
