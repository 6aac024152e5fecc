// shard_range: which part of a flat range each rank owns.
#pragma once

#include <cstdint>

namespace weft {

/// The elements [begin, end) of a flat range.
struct ShardRange {
  int64_t begin = 0;  ///< the first element
  int64_t end = 0;    ///< the one after the last
};

/// The part of a flat range of `numel` elements that `rank` of `size` owns in reduce_scatter, all_gather and all_to_all:
/// chunks of ceil(numel / size), the last ones shorter or empty.
ShardRange shard_range(int64_t numel, int size, int rank);

}  // namespace weft
