// host_name: which ranks share memory.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// This host's name for telling who shares memory: WEFT_HOST, else the system's.
std::string this_host();
/// Whether ranks on these hosts all share memory.
bool on_one_host(const std::vector<std::string>& hosts);

}  // namespace weft
