// Pass: clipping by the global gradient norm. One `norm` over all blocks once every gradient is final; updates wait for it.
//
// Memory: none. Traffic: none for replicas, every rank holds all gradients; ranks that share a replica add their parts up, 2
// (n-1)/n of one exact sum (base/exact_sum.h). It costs overlap: no update can start before the last reduce has finished. Comes
// after replicate or shard_gradients.
#pragma once

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

struct ClipOptions {
  int shards = 1;
  Bucket all;  ///< what the norm covers
};

InstructionList clip(const InstructionList& list, const ClipOptions& options);

}  // namespace weft
