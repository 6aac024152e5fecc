// Which sample stands where in a run: an endless sequence of permutations, one an epoch, that no world size changes.
//
// Position p of a run is in epoch p / size, at place p % size of that epoch's permutation. Every sample comes exactly once an
// epoch; a global batch may straddle two epochs. The permutation is a keyed bijection (a Feistel network with cycle walking)
// computed a place at a time: no memory, any size.
#pragma once

#include <cstdint>

namespace weft {

class Sampler {
 public:
  struct Options {
    uint64_t seed = 0;
    bool shuffle = true;
  };
  /// Throws InputError when size < 1.
  Sampler(int64_t size, const Options& options);
  int64_t size() const { return size_; }
  int64_t epoch(int64_t position) const { return position / size_; }
  int64_t sample(int64_t position) const;

 private:
  uint64_t permute(uint64_t value, uint64_t epoch_key) const;

  int64_t size_;
  Options options_;
  int half_bits_;  ///< the network works on two halves of this many bits; 4^half_bits_ is the first such power >= size_
};

}  // namespace weft
