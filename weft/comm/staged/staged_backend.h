// make_staged_backend: a group for tensors of a device whose data a back end of the host moves, through pinned memory. For
// ranks that share a device and machines without an engine for it (comm/c10d/device_engines.h); slower than one, since every
// byte crosses the host's memory twice.
#pragma once

#include <memory>

#include "weft/comm/call/backend.h"

namespace weft {

/// Creates a group on the plan's device over `host`, a back end of the same ranks for CPU tensors.
std::shared_ptr<Backend> make_staged_backend(const GroupPlan& plan, std::shared_ptr<Backend> host);

}  // namespace weft
