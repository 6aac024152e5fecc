// What the store of a launch knows of ranks that wait: for the launcher, which is none of them.
#pragma once

#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/comm/wait/waits.h"

namespace weft {

struct StoreAddress;

/// The waits for any of `lost` in words, the first two: "ranks 0, 1 waited in all_reduce sum of 8 float32 \"gradients\" for
/// ranks 2, 3"; empty where there are none. Other ranks of a world, `rows[r]` of rank r.
std::string describe_waits_for(const std::vector<RankRow>& rows, const std::vector<int>& lost);

/// The same of what the ranks of a world of `size` have told in a store: waits that have lasted for a second. Empty also where
/// the store does not answer by the deadline.
std::string reported_waits_for(const StoreAddress& store, int size, const std::vector<int>& lost, const Deadline& deadline);

}  // namespace weft
