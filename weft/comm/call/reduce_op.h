// ReduceOp: combination of several ranks' elements.
#pragma once

namespace weft {

/// Reduction of corresponding elements of several ranks.
enum class ReduceOp { sum, max, min };

}  // namespace weft
