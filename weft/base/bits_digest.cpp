#include "weft/base/bits_digest.h"

#include <array>
#include <bit>
#include <cstring>

#include "weft/base/hash.h"

namespace weft {
namespace {

constexpr size_t kLanes = 8, kWord = sizeof(uint64_t);
// Odd, so products are bijections. With a turn between two of them, no other flipped bit undoes what one has changed.
constexpr uint64_t kFirst = 0xc2b2ae3d27d4eb4fULL, kSecond = 0x9e3779b185ebca87ULL;
constexpr int kTurn = 31;

uint64_t word_at(const char* data) {
  uint64_t word = 0;
  std::memcpy(&word, data, kWord);
  return word;
}

uint64_t next(uint64_t state, uint64_t word) { return std::rotl(state + word * kFirst, kTurn) * kSecond; }

}  // namespace

uint64_t bits_digest(const void* data, size_t bytes, uint64_t seed) {
  const auto* at = static_cast<const char*>(data);
  std::array<uint64_t, kLanes> lanes{};
  for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = splitmix64(seed + lane);
  size_t left = bytes;
  for (; left >= kLanes * kWord; left -= kLanes * kWord, at += kLanes * kWord) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = next(lanes[lane], word_at(at + lane * kWord));
  }
  for (size_t lane = 0; left >= kWord; left -= kWord, at += kWord, ++lane) lanes[lane] = next(lanes[lane], word_at(at));
  uint64_t last = 0;
  if (left > 0) std::memcpy(&last, at, left);
  uint64_t digest = splitmix64(seed ^ bytes) ^ last;
  for (const uint64_t lane : lanes) digest = splitmix64(digest) ^ lane;
  return splitmix64(digest);
}

}  // namespace weft
