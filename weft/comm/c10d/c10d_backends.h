// Back ends of groups that use c10d's process groups.
#pragma once

#include <memory>

#include "weft/comm/call/backend.h"

namespace weft {

/// Creates a Gloo back end. Returns when all ranks of the plan have joined, or throws CommError at its deadline.
std::shared_ptr<Backend> make_gloo_backend(const GroupPlan& plan);
/// The same for NCCL. Defined by nccl.cpp or no_nccl.cpp, whichever is linked; the latter throws InputError.
std::shared_ptr<Backend> make_nccl_backend(const GroupPlan& plan);

}  // namespace weft
