#include "weft/nn/sequence/token_ranges.h"

#include <algorithm>

#include "weft/nn/sequence/zigzag.h"

namespace weft {

std::vector<ShardRange> sequence_ranges(const Context& context, int64_t tokens) {
  return zigzag(tokens * context.cp.size(), context.cp.size(), context.cp.rank());
}

std::vector<ShardRange> own_ranges(const Context& context, int64_t tokens) {
  if (!context.layout.sequence_parallel) return sequence_ranges(context, tokens);
  int64_t skipped = tokens * context.tp.rank(), left = tokens;
  std::vector<ShardRange> result;
  for (const ShardRange& range : sequence_ranges(context, tokens * context.tp.size())) {
    const int64_t begin = std::min(range.end, range.begin + skipped), end = std::min(range.end, begin + left);
    skipped -= begin - range.begin;
    left -= end - begin;
    if (begin < end) result.push_back({begin, end});
  }
  return result;
}

}  // namespace weft
