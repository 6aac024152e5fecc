// The name that the system gives this host.
#pragma once

#include <string>

namespace weft {

/// gethostname(2); empty where the system has none.
std::string system_host_name();

}  // namespace weft
