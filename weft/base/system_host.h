// The system's name for this host, and an identity that distinguishes hosts of the same name.
#pragma once

#include <string>

namespace weft {

/// Returns gethostname(2); empty if the system has no name.
std::string system_host_name();

/// Returns an identity that is equal for processes that see each other's pids and so can share memory: those of the same kernel
/// boot and the same pid namespace. Empty if the system does not provide it.
std::string system_identity();

}  // namespace weft
