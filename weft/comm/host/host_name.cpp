#include "weft/comm/host/host_name.h"

#include <unistd.h>

#include <algorithm>

#include "weft/base/environment.h"

namespace weft {

std::string this_host() {
  if (const auto name = env_string("WEFT_HOST")) return *name;
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

bool on_one_host(const std::vector<std::string>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) { return host == hosts.front(); });
}

}  // namespace weft
