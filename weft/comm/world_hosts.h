// The hosts of a world, for code that addresses each host.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/world.h"

namespace weft {

/// Returns the host of each rank; HostMap (comm/two_level/host_map.h) groups ranks by host.
std::vector<std::string> hosts_of(const World& world);

}  // namespace weft
