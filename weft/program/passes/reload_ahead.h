// Pass: reload ahead. Where copies run beside compute, each reload starts with the one before it of its kind (input, shard,
// optimizer state), so that it overlaps what that one is for: the state of one block is copied in, and that of another out,
// while a third is updated. Never before its own offload.
//
// Memory: the state of two blocks of each kind instead of one. An offloaded block's memory is freed by the next move of its
// kind (an input) or the next reload, by when its copy should have ended. Traffic: 0. Runs last, after offload_shards and
// prefetch.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Moves reloads of the kinds that are copied beside compute earlier.
InstructionList reload_ahead(InstructionList list, const OffloadOptions& options);

}  // namespace weft
