// How large a recipe's whole numbers may be.
#pragma once

#include <cstdint>

namespace weft {

constexpr int64_t kMostCount = 1'000'000'000;  ///< of what has no maximum of its own: products of a few stay far inside int64
constexpr int64_t kMostHeads = 10'000;
constexpr int64_t kMostSlots = 1'000'000;

}  // namespace weft
