#include "weft/data/sampler.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/hash.h"

namespace weft {
namespace {

constexpr int kRounds = 8;

int half_bits_for(int64_t size) {
  int half = 1;
  while (half < 31 && (int64_t{1} << (2 * half)) < size) ++half;
  return half;
}

}  // namespace

Sampler::Sampler(int64_t size, const Options& options) : size_(size), options_(options), half_bits_(half_bits_for(size)) {
  constexpr int64_t kLargest = int64_t{1} << 62;
  if (size < 1 || size > kLargest) {
    throw InputError(fmt::format("sampler: a dataset of {} samples cannot be sampled; give it at least one", size));
  }
}

int64_t Sampler::sample(int64_t position) const {
  const int64_t place = position % size_;
  if (!options_.shuffle || size_ == 1) return place;
  const uint64_t key = splitmix64(splitmix64(options_.seed) ^ static_cast<uint64_t>(epoch(position)));
  // Cycle walking: the network permutes a power of four at most four times too large. A value outside [0, size) is permuted
  // again until it falls inside: a bijection of the inside, with fewer than four passes on average.
  uint64_t value = static_cast<uint64_t>(place);
  do {
    value = permute(value, key);
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

uint64_t Sampler::permute(uint64_t value, uint64_t epoch_key) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (splitmix64(epoch_key ^ (round << 56) ^ right) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

}  // namespace weft
