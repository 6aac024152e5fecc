// ReduceOp: how elements of several ranks become one.
#pragma once

namespace weft {

/// What is made of the elements that several ranks have at the same place.
enum class ReduceOp { sum, max, min };

}  // namespace weft
