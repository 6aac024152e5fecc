// SumCheck: compares a sum over the ranks of a group with its repetition, and with sums of a few elements (call_audit.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "weft/comm/audit/call_audit.h"
#include "weft/comm/call/axis.h"
#include "weft/comm/group.h"

namespace weft {

/// A sum, maximum or minimum over the ranks that was made twice.
struct MadeTwice {
  at::Tensor parts;   ///< what this rank gave, flat
  at::Tensor result;  ///< of the call, flat: all elements, or this rank's, as scattered
  at::Tensor again;   ///< of the repetition
  int64_t begin = 0;  ///< the first element of the result in `parts`
  bool is_scattered = false;
  ReduceOp op = ReduceOp::sum;
  const void* place = nullptr;  ///< of the parts in this rank's memory, before they were copied
  std::string_view what = {};
};

/// Adds what is wrong to the audit, the same on every rank. Collective over the group. `call` counts the audited calls.
void check_sum(const MadeTwice& sum, const Group& group, const Axis& axis, uint64_t call, CallAudit& audit);

/// Every rank's row, [ranks, numbers].
at::Tensor gather_rows(const Group& group, const std::vector<int64_t>& row, std::string_view what);

}  // namespace weft
