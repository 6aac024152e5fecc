#include "weft/comm/call/shard_range.h"

#include <algorithm>

#include "weft/base/math.h"

namespace weft {

ShardRange shard_range(int64_t numel, int size, int rank) {
  const int64_t chunk = ceil_divide(numel, size);
  return {std::min(numel, chunk * rank), std::min(numel, chunk * (rank + 1))};
}

}  // namespace weft
