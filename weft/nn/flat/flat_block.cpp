#include "weft/nn/flat/flat_block.h"

#include <c10/util/accumulate.h>

#include <algorithm>

namespace weft {

int64_t Param::whole_numel() const { return c10::multiply_integers(shape); }

at::Tensor Param::own_in(const at::Tensor& place) const { return split ? part_in(place, shape, *split) : place.view(shape); }

std::vector<SplitRun> Param::runs() const {
  return split ? runs_of(shape, *split) : std::vector<SplitRun>{{.part_begin = 0, .whole_begin = 0, .numel = numel}};
}

GroupRange FlatPart::own(const GroupRange& range) const {
  const int64_t low = begin + owned.begin, high = begin + owned.end;
  return {range.group, std::clamp(range.begin, low, high) - low, std::clamp(range.end, low, high) - low, range.split};
}

}  // namespace weft
