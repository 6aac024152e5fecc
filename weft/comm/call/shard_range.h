// shard_range: the part of a flat range that each rank owns.
#pragma once

#include <cstdint>

namespace weft {

/// The elements [begin, end) of a flat range.
struct ShardRange {
  int64_t begin = 0;  ///< first element
  int64_t end = 0;    ///< one past the last element
};

/// Returns the part of `numel` elements that `rank` of `size` owns in reduce_scatter, all_gather and all_to_all: chunks of
/// ceil(numel / size), the last ones shorter or empty.
ShardRange shard_range(int64_t numel, int size, int rank);

}  // namespace weft
