// Limits of a recipe's integers.
#pragma once

#include <cstdint>

namespace weft {

constexpr int64_t kMostCount = 1'000'000'000;  ///< for keys without a maximum; products of a few stay far inside int64
constexpr int64_t kMostHeads = 10'000;
constexpr int64_t kMostSlots = 1'000'000;
constexpr int kMostRanks = 1'000'000;  ///< also for layout.dp, layout.pp and layout.shard

}  // namespace weft
