// Two small hashes: FNV-1a of text, for names that ranks compare, and splitmix64 of a number, for keys of random streams.
// Neither is cryptographic. Neither may ever change: results on disk and across ranks depend on them.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/base/host_device.h"

namespace weft {

inline constexpr uint64_t kFnvBasis = 0xcbf29ce484222325ULL;

/// FNV-1a, 64 bits. Pass an earlier result as `basis` to continue hashing.
constexpr uint64_t fnv1a(std::string_view text, uint64_t basis = kFnvBasis) {
  uint64_t hash = basis;
  for (const char c : text) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

/// The splitmix64 generator's output for state `x`: a bijection that spreads every input bit over all output bits.
WEFT_HOST_DEVICE constexpr uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace weft
