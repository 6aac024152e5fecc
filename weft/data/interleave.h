// Which of several sources stands at each position of an endless sequence, so that every stretch of it has them in their
// shares: no random numbers, no memory, any place at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

/// Shares of sources, as whole numbers: of each run of sum(weights) positions that begins at a multiple of it, source k has
/// weights[k]. In between no source's count is off its share by as much as the number of the others (by 1, for two).
class Interleave {
 public:
  /// What stands at a position.
  struct Place {
    size_t source = 0;  ///< of which source
    int64_t count = 0;  ///< how many of that source stand before
  };
  /// Throws InputError for no weights, a weight below 1, or a sum of 2^62 and more.
  explicit Interleave(std::vector<int64_t> weights);
  /// At a position of the sequence, which is not negative.
  Place at(int64_t position) const;

 private:
  std::vector<int64_t> weights_;
  int64_t total_ = 0;
};

/// The smallest whole numbers in the ratio of these, which have six digits after the point at most. Throws InputError for one
/// that has more, or is not in (0, 1e6].
std::vector<int64_t> whole_weights(const std::vector<double>& shares);

}  // namespace weft
