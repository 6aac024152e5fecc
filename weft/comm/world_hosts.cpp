#include "weft/comm/world_hosts.h"

namespace weft {

std::vector<std::string> hosts_of(const World& world) {
  std::vector<std::string> hosts;
  hosts.reserve(world.size());
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(world.host(rank));
  return hosts;
}

}  // namespace weft
