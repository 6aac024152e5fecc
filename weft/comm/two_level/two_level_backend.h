// Two-level back end for an axis over several hosts: shared memory inside each, Gloo between them, for any number of ranks per
// host. Each byte crosses the network once per host instead of once per rank (host_operations.h). Calls overlap the caller's
// work.
#pragma once

#include <memory>

#include "weft/comm/call/backend.h"

namespace weft {

/// Creates a back end for CPU tensors. Returns when all ranks of the plan have joined, or throws CommError at its deadline.
std::shared_ptr<Backend> make_host_backend(const GroupPlan& plan);

}  // namespace weft
