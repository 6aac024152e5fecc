// What the system calls this host, and by what it can be told from others of that name.
#pragma once

#include <string>

namespace weft {

/// gethostname(2); empty where the system has none.
std::string system_host_name();

/// What processes have alike that see each other's numbers, and so can share memory: the same boot of the same kernel, and the
/// same process namespace. Empty where the system does not tell.
std::string system_identity();

}  // namespace weft
