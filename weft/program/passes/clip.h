// Pass: clipping by the global gradient norm. One `norm` over all blocks once every gradient is final; updates wait for it.
//
// Memory: none. Traffic: none for replicas, every rank holds all gradients; ranks that hold parts of a replica add them up, 2
// (n-1)/n of one exact sum (base/exact_sum.h). It costs overlap: no update can start before the last reduce has finished. Comes
// after replicate or shard_gradients.
#pragma once

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// Whose gradients the norm is of.
struct ClipOptions {
  AxisSet axes = {};  ///< along which ranks hold different parts of one replica
  int ranks = 1;      ///< along them
  Bucket all;         ///< what the norm covers, of what this rank holds
};

/// Adds the norm.
InstructionList clip(InstructionList list, const ClipOptions& options);

}  // namespace weft
