// Describes waiting ranks as recorded in a launch's store, for the launcher, which is not a rank.
#pragma once

#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/comm/wait/waits.h"

namespace weft {

struct StoreAddress;

/// Describes the waits (at most two) for any of the `lost` ranks: "ranks 0, 1 waited in all_reduce sum of 8 float32
/// \"gradients\" for ranks 2, 3"; empty if there are no such waits. `rows[r]` is the row of rank r.
std::string describe_waits_for(const std::vector<RankRow>& rows, const std::vector<int>& lost);

/// The same, from the waits longer than a second that the ranks of a world of `size` have recorded in a store. Also empty if
/// the store does not answer by the deadline.
std::string reported_waits_for(const StoreAddress& store, int size, const std::vector<int>& lost, const Deadline& deadline);

}  // namespace weft
