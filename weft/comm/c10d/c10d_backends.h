// Groups on c10d's process groups.
#pragma once

#include <memory>

#include "weft/comm/call/backend.h"

namespace weft {

/// On Gloo. Returns when all ranks of the plan have joined, or throws CommError at its deadline.
std::shared_ptr<Backend> make_gloo_backend(const GroupPlan& plan);
/// On NCCL, likewise. Defined by nccl.cpp or no_nccl.cpp, whichever is linked; the latter throws InputError.
std::shared_ptr<Backend> make_nccl_backend(const GroupPlan& plan);

}  // namespace weft
