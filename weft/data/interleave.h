// Assigns a source to each position of an endless sequence, so that every stretch has the sources in proportion: no random
// numbers, no memory, random access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

/// Assigns positions by whole weights: of each sum(weights) positions that begin at a multiple of that sum, source k gets
/// weights[k]. In between, its count is off by less than the number of other sources (1 for two).
class Interleave {
 public:
  /// Entry of a position.
  struct Place {
    size_t source = 0;  ///< the source
    int64_t count = 0;  ///< entries of that source before this one
  };
  /// Throws InputError for no weights, a weight below 1, or a sum of 2^62 or more.
  explicit Interleave(std::vector<int64_t> weights);
  /// Returns the entry at a position >= 0.
  Place at(int64_t position) const;

 private:
  std::vector<int64_t> weights_;
  int64_t total_ = 0;
};

/// Returns the smallest whole numbers in the ratio of `shares`, which have at most six decimals. Throws InputError for a share
/// with more, or outside (0, 1e6].
std::vector<int64_t> whole_weights(const std::vector<double>& shares);

}  // namespace weft
