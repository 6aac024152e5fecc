// Pass: the loss of the step. Losses and counts of all micro-batches are summed over the ranks; gradients are of the sum, and
// updates divide by the count. Where one rank holds the whole model that runs right after the last loss, beside backward; the
// ranks of a pipeline, of which only the last stage's have losses, do it once the pipeline is empty. Squares for the noise
// scale travel with them, and are then waited for too.
//
// Memory: none. Traffic: 2 (n-1)/n of the loss table, 24 bytes (sum, count and nominal targets as float64) for every
// micro-batch of the global batch, and of 168 bytes of an exact sum for the squares. Comes after the gradients' reductions are
// in place, before clip.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds the reduce_loss.
InstructionList sum_losses(InstructionList list, const Program& program);

}  // namespace weft
