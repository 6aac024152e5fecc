// bits_digest: a fast 64-bit digest of bytes, to compare copies of large state. Not cryptographic, and not for files.
//
// Every lane is a bijection of its state in each word, so a single flipped bit, or any change within one word, always changes
// the digest; a change in more places goes unseen once in 2^64. It depends on positions: swapped words change it. XXH64's
// rounds in eight lanes: about as fast as one core reads memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

/// Digest of the bytes. Pass an earlier result as `seed` to continue with other memory.
uint64_t bits_digest(const void* data, size_t bytes, uint64_t seed = 0);

}  // namespace weft
