// TreeReduction: element type and operation of a reduction (reduce.h).
#pragma once

#include <c10/core/ScalarType.h>

#include "weft/comm/call/reduce_op.h"

namespace weft {

/// A reduction in tree order.
struct TreeReduction {
  at::ScalarType dtype = at::kFloat;
  ReduceOp op = ReduceOp::sum;
};

}  // namespace weft
