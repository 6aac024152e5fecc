// shm_memory_bytes: memory of a shared-memory group.
#pragma once

#include <cstdint>

#include "weft/comm/call/group_options.h"

namespace weft {

/// Group::memory_bytes() of a rank of a shm group.
int64_t shm_memory_bytes(int ranks, const GroupOptions& options = {});

}  // namespace weft
