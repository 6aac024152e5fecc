// Buffers in pinned host memory, copied to and from a device beside its work.
#pragma once

#include <memory>

#include "weft/comm/staged/copy_streams.h"
#include "weft/engine/offload_store.h"

namespace weft {

/// Buffers for tensors on the device of these streams. Those that blocks keep on the CPU are taken too.
std::unique_ptr<OffloadStore> pinned_offload(const CopyStreams& streams);

}  // namespace weft
