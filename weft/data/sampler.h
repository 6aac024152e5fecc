// Maps positions of a run to samples: an endless sequence of permutations, one per epoch, independent of the world size.
//
// Position p of a run is in epoch p / size, at place p % size of that epoch's permutation. Every sample comes exactly once per
// epoch; a global batch may span two epochs. The permutation is a keyed bijection (a Feistel network with cycle walking)
// computed place by place: no memory, any size.
#pragma once

#include <cstdint>

namespace weft {

/// Maps positions of a run to samples.
class Sampler {
 public:
  /// Order of samples.
  struct Options {
    uint64_t seed = 0;    ///< for all permutations
    bool shuffle = true;  ///< false: every epoch in order
  };
  /// Sampler for a dataset of `size` samples. Throws InputError if it is empty.
  Sampler(int64_t size, const Options& options);
  /// Number of samples, and of positions per epoch.
  int64_t size() const { return size_; }
  /// Epoch of a position of the run, from 0.
  int64_t epoch(int64_t position) const { return position / size_; }
  /// True if each epoch's order is drawn from the seed.
  bool is_shuffled() const { return options_.shuffle; }
  /// Returns the index in the dataset of the sample at a position >= 0 of the run.
  int64_t sample(int64_t position) const;

 private:
  uint64_t permute(uint64_t value, uint64_t epoch_key) const;

  int64_t size_;
  Options options_;
  int half_bits_;  ///< width of each half in the network; 4^half_bits_ is the first such power >= size_
};

}  // namespace weft
