// SampleRandom: random numbers for a sample's augmentation, keyed by (seed, epoch, sample) only: independent of worker, rank
// and restarts.
#pragma once

#include <cstdint>

#include "weft/base/hash.h"

namespace weft {

/// Endless sequence of random numbers for one sample of one epoch.
class SampleRandom {
 public:
  /// Keyed by a run's seed, an epoch and a sample.
  SampleRandom(uint64_t seed, int64_t epoch, int64_t sample)
      : key_(splitmix64(splitmix64(splitmix64(fnv1a("augmentation") ^ seed) ^ static_cast<uint64_t>(epoch)) ^
                        static_cast<uint64_t>(sample))) {}

  /// Uniform in [0, 1): k 2^-53.
  double uniform() { return static_cast<double>(splitmix64(key_ + count_++) >> 11) * 0x1p-53; }
  /// Uniform in [0, n), n >= 1.
  int64_t below(int64_t n) { return static_cast<int64_t>(uniform() * static_cast<double>(n)); }

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

}  // namespace weft
