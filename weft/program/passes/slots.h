// Pass: reproducible slots. Micro-batches are summed in a fixed binary tree over slots, so that the result does not depend on
// how many ranks the slots are spread over.
//
// A slot is a contiguous run of the rank's micro-batches, which add up one after another in the flat gradients. Closing it
// (`combine`) merges sums as a binary counter carries: the sum of slot s is added to the stashed sums of the trailing one bits
// of s, lowest first, the earlier slots on the left; then it is stashed and the gradients are zeroed for the next slot. The
// last slot, all one bits, takes in every stash and leaves the rank's sum in the gradients. The reduction over ranks goes on
// with the same tree, so `slots` is a power of two. One slot needs no combine.
//
// Memory: log2(slots) times the gradient bytes at the peak. Traffic: none. Comes after recompute and offload_activations. All
// slots but the last are closed in as long ranges of blocks as take the slots one after another (a stage; where it splits its
// backward, the blocks that can and those that cannot), the last one bucket by bucket as backward fills them, so that
// reductions still overlap.
#pragma once

#include <vector>

#include "weft/base/found.h"
#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// How the last slot is closed.
struct SlotOptions {
  std::vector<Bucket> buckets;  ///< each combined in one go
  int pp = 0;                   ///< the rank's place on the pipeline axis
};

/// Adds the combines of `program.slots`, a power of two that divides the rank's micro-batches. None where a block's gradients
/// mix slots: where its weights are tied to those of another stage of the rank, or of a block that splits its backward
/// otherwise.
Found<InstructionList> close_slots(InstructionList list, const Program& program, const SlotOptions& options);

}  // namespace weft
