// Pass: norms that updates wait for: the global gradient norm (clipping, fp16's check), without that the largest gradient,
// which tells as well whether all are finite, and the norms of whole tensors (LARS, LAMB). One `norm` over all blocks once
// every gradient is final.
//
// Memory: none. Traffic: none for replicas, every rank holds all gradients; ranks that hold parts of a replica add up exact
// sums (base/exact_sum.h), 2 (n-1)/n of one, and of two for each tensor of the model; of the largest, of 8 bytes. It costs
// overlap: no update can start before the last reduce has finished. Comes after replicate or shard_gradients.
#pragma once

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// Which norms, and of what.
struct NormOptions {
  AxisSet axes = {};     ///< along which ranks hold different parts of one replica
  int ranks = 1;         ///< along them
  Bucket all;            ///< what the norms cover, of what this rank holds
  bool global = true;    ///< that of all gradients
  bool largest = false;  ///< instead of that their largest magnitude
  int64_t tensors = 0;   ///< tensors of the whole model, if their norms are needed: of weights, and of what moves them
};

/// Adds the norm.
InstructionList add_norms(InstructionList list, const NormOptions& options);

}  // namespace weft
