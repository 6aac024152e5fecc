// Two levels, for an axis over several hosts with several ranks on each: an all_reduce becomes a reduce_scatter inside the
// host over shm, an all_reduce of that part across hosts over Gloo, and an all_gather inside the host. Each byte crosses the
// network once a host instead of once a rank. All other calls go to a flat Gloo group.
#pragma once

#include <memory>

#include "weft/comm/call/backend.h"

namespace weft {

/// Whether two levels serve this axis: equally many ranks on every host, neighbours on the axis. With tree_order also a power
/// of two of them, since only then are the hosts' sums the lower branches of the group's tree.
bool suits_two_levels(const GroupPlan& plan);

std::shared_ptr<Backend> make_two_level_backend(const GroupPlan& plan);

}  // namespace weft
