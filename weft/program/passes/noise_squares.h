// Pass: what the gradient noise scale is measured by (McCandlish et al. 2018, arXiv:1812.06162, appendix A.1): the squares of
// the gradients of small batches beside those of the whole one, which the `norm` takes. A small batch is the first micro-batch
// of a slot, so that every rank has as many as it has slots, and with reproducible slots they are the same whatever the ranks.
//
// One `squares` for each block and slot, between the backward that adds that micro-batch and whatever comes next to the block's
// gradients: the next micro-batch, the slot's end, a reduction. Memory: none. Traffic: none of its own, the sums ride on the
// reduce_loss (sum_losses.h), which then waits for the last of them. It costs one reading of the gradients a slot. Comes after
// the slots are closed and all reductions are in place, before sum_losses.
#pragma once

#include "weft/base/found.h"
#include "weft/program/program.h"

namespace weft {

/// Adds the squares. None where no rank has a small batch's gradients of a block by themselves: where pipeline ranks share its
/// weights, or two stages of one rank do whose backwards take micro-batches in another order.
Found<InstructionList> add_noise_squares(InstructionList list, const Program& program);

}  // namespace weft
