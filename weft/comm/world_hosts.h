// The hosts of a world, for those who speak to each of them.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/world.h"

namespace weft {

/// The host of each rank; HostMap (comm/two_level/host_map.h) tells who shares one.
std::vector<std::string> hosts_of(const World& world);

}  // namespace weft
