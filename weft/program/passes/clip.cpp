#include "weft/program/passes/clip.h"

#include "weft/base/exact_sum.h"
#include "weft/program/cost.h"

namespace weft {

InstructionList clip(InstructionList list, const ClipOptions& options) {
  constexpr int64_t kSumBytes = (ExactSum::kWords + 1) * sizeof(int64_t);
  list.push_back({.op = Op::norm,
                  .first = options.all.first,
                  .last = options.all.last,
                  .axes = options.axes,
                  .wire_bytes = all_reduce_bytes(kSumBytes, options.ranks)});
  return list;
}

}  // namespace weft
