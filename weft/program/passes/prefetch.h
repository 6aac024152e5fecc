// Pass: prefetch. Hoists each gather to start `depth` block runs before the one that needs it, so that its traffic overlaps
// them; never so far that more than `max_bytes` of whole weights would be held at once.
//
// Memory: the whole weights of `depth` more blocks. Traffic: 0. Runs after shard_parameters.
#pragma once

#include "weft/base/found.h"
#include "weft/program/program.h"

namespace weft {

/// Distance of prefetch.
struct PrefetchOptions {
  int depth = 1;          ///< block runs between a gather and the run that needs it
  int64_t max_bytes = 0;  ///< 0: no limit
};

/// Moves gathers earlier. why_not if the weights that one block needs exceed the limit.
Found<InstructionList> prefetch(InstructionList list, const Program& program, const PrefetchOptions& options);

}  // namespace weft
