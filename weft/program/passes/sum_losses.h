// Pass: the loss of the step. Losses and counts of all micro-batches are summed over the ranks; gradients are of the sum, and
// updates divide by the count. Where one rank holds the whole model that runs right after the last loss, beside backward; the
// ranks of a pipeline, of which only the last stage's have losses, do it once the pipeline is empty. Squares for the noise
// scale travel with them, and are then waited for too; so does, after the last backward, which parameters had a gradient, where
// blocks may leave some without, and so do votes, which are then as late as a step allows.
//
// Memory: none. Traffic: 2 (n-1)/n of the loss table, 24 bytes (sum, count and nominal targets as float64) for every
// micro-batch of the global batch, of 168 bytes of an exact sum for the squares, and of 8 bytes for each parameter that is told
// of and for each vote. Comes after the gradients' reductions are in place, before clip.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds the reduce_loss.
InstructionList sum_losses(InstructionList list, const Program& program);

}  // namespace weft
