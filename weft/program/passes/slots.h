// Pass: reproducible slots. Micro-batches are summed in a fixed binary tree over slots, so the result does not depend on the
// number of ranks that share the slots.
//
// A slot is a contiguous run of the rank's micro-batches, which accumulate in the flat gradients. Closing it (`combine`) merges
// sums like the carries of a binary counter: the sum of slot s is added to the stashed sums of the trailing one bits of s,
// lowest first, earlier slots on the left; then it is stashed and the gradients are zeroed for the next slot. The last slot,
// all one bits, merges every stash and leaves the rank's sum in the gradients. The reduction over ranks continues the same
// tree, so `slots` is a power of two. One slot needs no combine.
//
// Memory: log2(slots) times the gradient bytes at the peak. Traffic: 0. Runs after recompute and offload_activations. All
// slots except the last are closed in the longest ranges of blocks that process slots in order (a stage; with split backward,
// the blocks that split and those that cannot), the last one bucket by bucket as backward fills them, so that reductions still
// overlap.
#pragma once

#include <vector>

#include "weft/base/found.h"
#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// Closing of the last slot.
struct SlotOptions {
  std::vector<Bucket> buckets;  ///< each combined in one instruction
  int pp = 0;                   ///< the rank's place on the pipeline axis
};

/// Adds the combines of `program.slots`, a power of two that divides the rank's micro-batches. why_not if a block's gradients
/// mix slots: if its weights are tied to another stage of the rank, or to a block whose backward splits differently.
Found<InstructionList> close_slots(InstructionList list, const Program& program, const SlotOptions& options);

}  // namespace weft
