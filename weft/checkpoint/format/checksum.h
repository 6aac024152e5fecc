// The checksum of a chunk of a data file: XXH3, 64 bits, of xxHash; as fast as memory, and no protection from an attacker.
#pragma once

#include <cstdint>

namespace weft {

/// XXH3_64bits of the bytes, without a seed.
uint64_t checksum(const void* data, int64_t bytes);

}  // namespace weft
