// Which sample stands where in a run: an endless sequence of permutations, one an epoch, that no world size changes.
//
// Position p of a run is in epoch p / size, at place p % size of that epoch's permutation. Every sample comes exactly once an
// epoch; a global batch may straddle two epochs. The permutation is a keyed bijection (a Feistel network with cycle walking)
// computed a place at a time: no memory, any size.
#pragma once

#include <cstdint>

namespace weft {

/// Which sample stands at a position of a run.
class Sampler {
 public:
  /// How samples are ordered.
  struct Options {
    uint64_t seed = 0;    ///< of all permutations
    bool shuffle = true;  ///< false: every epoch in order
  };
  /// For a dataset of `size` samples. Throws InputError when there are none.
  Sampler(int64_t size, const Options& options);
  /// Samples of the dataset: positions of an epoch.
  int64_t size() const { return size_; }
  /// The epoch that a position of the run is in, from 0.
  int64_t epoch(int64_t position) const { return position / size_; }
  /// Whether epochs have orders drawn from the seed.
  bool is_shuffled() const { return options_.shuffle; }
  /// The index in the dataset of the sample at a position of the run, which is not negative.
  int64_t sample(int64_t position) const;

 private:
  uint64_t permute(uint64_t value, uint64_t epoch_key) const;

  int64_t size_;
  Options options_;
  int half_bits_;  ///< the network works on two halves of this many bits; 4^half_bits_ is the first such power >= size_
};

}  // namespace weft
