#include "weft/comm/host/host_name.h"

#include <algorithm>

#include "weft/base/environment.h"
#include "weft/base/system_host.h"

namespace weft {

std::string this_host() {
  if (const auto name = env_string("WEFT_HOST")) return *name;
  const std::string name = system_host_name();
  return name.empty() ? "localhost" : name;
}

bool on_one_host(const std::vector<std::string>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) { return host == hosts.front(); });
}

}  // namespace weft
