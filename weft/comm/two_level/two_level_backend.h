// Two levels, for an axis over several hosts: shared memory inside each, Gloo between them, however many ranks a host has. Each
// byte crosses the network once for a host instead of once for a rank (host_operations.h). Calls go on beside the caller's
// work.
#pragma once

#include <memory>

#include "weft/comm/call/backend.h"

namespace weft {

/// Of tensors on the CPU. Returns when all ranks of the plan have joined, or throws CommError at its deadline.
std::shared_ptr<Backend> make_host_backend(const GroupPlan& plan);

}  // namespace weft
