#include "weft/program/build/step_layout.h"

#include <algorithm>

#include "weft/base/math.h"

namespace weft {
int64_t padded_numel(int64_t numel, int shards) { return round_up(numel, kAlignElements * shards); }

std::vector<int> even_stages(int blocks, int stages) {
  std::vector<int> first;
  first.reserve(stages);
  for (int s = 0; s < stages; ++s) first.push_back(blocks / stages * s + std::min(s, blocks % stages));
  return first;
}

}  // namespace weft
