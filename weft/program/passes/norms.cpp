#include "weft/program/passes/norms.h"

#include "weft/base/exact_sum.h"
#include "weft/program/cost.h"

namespace weft {

InstructionList add_norms(InstructionList list, const NormOptions& options) {
  constexpr int64_t kSumBytes = (ExactSum::kWords + 1) * sizeof(int64_t), kLargestBytes = sizeof(int64_t);
  list.push_back({.op = Op::norm,
                  .first = options.all.first,
                  .last = options.all.last,
                  .axes = options.axes,
                  .wire_bytes = (options.global ? all_reduce_bytes(kSumBytes, options.ranks) : 0) +
                                (options.largest ? all_reduce_bytes(kLargestBytes, options.ranks) : 0) +
                                all_reduce_bytes(2 * options.tensors * kSumBytes, options.ranks)});
  return list;
}

}  // namespace weft
