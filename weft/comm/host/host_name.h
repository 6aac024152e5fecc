// host_name: the host names that decide which ranks share memory.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Returns this host's name: WEFT_HOST, else the system's name. Ranks with equal host names share memory.
std::string this_host();
/// Returns whether ranks on these hosts all share memory.
bool on_one_host(const std::vector<std::string>& hosts);

}  // namespace weft
