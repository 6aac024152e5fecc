// make_shm_backend: a group of ranks on one host, through shared memory.
#pragma once

#include <memory>

#include "weft/comm/call/backend.h"

namespace weft {

/// Returns when all ranks of the plan have joined, or throws CommError at its deadline.
std::shared_ptr<Backend> make_shm_backend(const GroupPlan& plan);

}  // namespace weft
