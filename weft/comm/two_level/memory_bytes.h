// two_level_memory_bytes: memory of a two-level group.
#pragma once

#include <cstdint>

#include "weft/comm/call/group_options.h"

namespace weft {

/// Group::memory_bytes() of a rank of a two-level group, with `ranks` of the group's ranks on its host.
int64_t two_level_memory_bytes(int ranks, const GroupOptions& options = {});

}  // namespace weft
