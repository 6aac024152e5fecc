// Pass: norms that updates wait for: the global gradient norm (clipping, fp16's check), or else the largest gradient, which
// also shows whether all are finite; and the norms of whole tensors (LARS, LAMB). Adds one `norm` over all blocks, once every
// gradient is final.
//
// Memory: 0. Traffic: 0 for replicas, where every rank holds all gradients; ranks that hold parts of a replica send 2 (n-1)/n
// of an exact sum (base/exact_sum.h), and of two per tensor of the model for tensor norms; for the largest gradient, of 8
// bytes. Cost: no update can start before the last reduce has finished. Runs after replicate or shard_gradients.
#pragma once

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// Norms to compute.
struct NormOptions {
  AxisSet axes = {};     ///< axes along which ranks hold different parts of one replica
  int ranks = 1;         ///< ranks along these axes
  Bucket all;            ///< range of this rank's blocks
  bool global = true;    ///< norm of all gradients
  bool largest = false;  ///< largest magnitude instead
  int64_t tensors = 0;   ///< tensors of the model whose weight and update norms are needed; 0: not needed
};

/// Adds the norm.
InstructionList add_norms(InstructionList list, const NormOptions& options);

}  // namespace weft
