// Pass: inputs of the gradient noise scale (McCandlish et al. 2018, arXiv:1812.06162, appendix A.1): squared gradients of small
// batches; `norm` takes those of the whole batch. A small batch is the first micro-batch of a slot, so every rank has one per
// slot, and with reproducible slots the small batches do not depend on the ranks.
//
// One `squares` per block and slot, between the backward that adds that micro-batch and the next change of the block's
// gradients: the next micro-batch, the slot's end, a reduction. Memory: 0. Traffic: the sums travel with the reduce_loss
// (sum_losses.h), which then waits for the last `squares`. Cost: one read of the gradients per slot. Runs after the slots are
// closed and all reductions are in place, before sum_losses.
#pragma once

#include "weft/base/found.h"
#include "weft/program/program.h"

namespace weft {

/// Adds the squares. why_not if no rank has a block's gradients of a small batch separately: if pipeline ranks share its
/// weights, or if two stages of a rank share them and run backward in different micro-batch orders.
Found<InstructionList> add_noise_squares(InstructionList list, const Program& program);

}  // namespace weft
