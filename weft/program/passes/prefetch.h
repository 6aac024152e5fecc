// Pass: prefetch. Hoists each gather so that it starts `depth` runs of blocks before the one that needs it, and its traffic
// hides behind them; never so far that more than `max_bytes` of whole weights would be there at a time.
//
// Memory: `depth` blocks' whole weights more. Traffic: none. Comes after shard_parameters.
#pragma once

#include "weft/base/found.h"
#include "weft/program/program.h"

namespace weft {

/// How early gathers start.
struct PrefetchOptions {
  int depth = 1;          ///< runs of blocks between a gather and the run that needs it
  int64_t max_bytes = 0;  ///< 0: no limit
};

/// Moves gathers forward. None where the weights that one block needs are above the limit.
Found<InstructionList> prefetch(InstructionList list, const Program& program, const PrefetchOptions& options);

}  // namespace weft
