// One IDX file of unsigned bytes: a big-endian header (magic, then a 32-bit size a dimension), then the values. Plain or gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/bad_data.h"

namespace weft {

/// What an IDX file holds.
struct IdxFile {
  std::vector<int64_t> sizes;   ///< [n] labels, [n, height, width] images
  std::vector<uint8_t> values;  ///< row-major
  int64_t missing = 0;          ///< of sizes[0] as the header has it: what a file that is cut off lacks
};

/// Reads the whole file. Throws InputError for a missing, truncated, too long or corrupt file and for a magic number other
/// than that of `dims`-dimensional bytes; of a truncated one BadData::skip takes what is there whole. `what` ("images",
/// "labels") goes into the error.
IdxFile read_idx(const std::string& path, int dims, const std::string& what, BadData bad = BadData::refuse);

}  // namespace weft
