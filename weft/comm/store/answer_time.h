// kToAnswer: how long a store may take to answer.
#pragma once

#include <chrono>

namespace weft {

/// The time that a store which is well has for answering, also at the very end of a deadline.
inline constexpr std::chrono::milliseconds kToAnswer{500};

}  // namespace weft
