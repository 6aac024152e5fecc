// Checksum of a chunk of a data file: 64-bit XXH3 of xxHash; as fast as memory, but no protection against an attacker.
#pragma once

#include <cstdint>

namespace weft {

/// Returns XXH3_64bits of the bytes, unseeded.
uint64_t xxh3_checksum(const void* data, int64_t bytes);

}  // namespace weft
