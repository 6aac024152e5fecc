// ReduceOp: how elements of several ranks become one.
#pragma once

namespace weft {

enum class ReduceOp { sum, max, min };

}  // namespace weft
