// IDX file of unsigned bytes: a big-endian header (magic, then one 32-bit size per dimension), then values. Plain or gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/bad_data.h"

namespace weft {

/// Content of an IDX file.
struct IdxFile {
  std::vector<int64_t> sizes;   ///< [n] labels, [n, height, width] images
  std::vector<uint8_t> values;  ///< row-major
  int64_t missing = 0;          ///< items, counted in the header's sizes[0], that a truncated file lacks
};

/// Reads the whole file. Throws InputError for a missing, truncated, too long or corrupt file and for a magic number other than
/// that of `dims`-dimensional bytes; BadData::skip keeps the whole items of a truncated file. `what` ("images", "labels") goes
/// into the error.
IdxFile read_idx(const std::string& path, int dims, const std::string& what, BadData bad = BadData::refuse);

}  // namespace weft
