// Back ends of groups that use c10d's process groups.
#pragma once

#include <memory>

#include "weft/comm/call/backend.h"

namespace weft {

/// Creates a Gloo back end. Returns when all ranks of the plan have joined, or throws CommError at its deadline.
std::shared_ptr<Backend> make_gloo_backend(const GroupPlan& plan);
/// The same for tensors of a device other than the CPU, with the engine of its type (device_engines.h). Throws InputError if
/// there is none.
std::shared_ptr<Backend> make_device_backend(const GroupPlan& plan);

}  // namespace weft
