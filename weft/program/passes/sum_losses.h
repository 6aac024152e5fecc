// Pass: the loss of the step. Losses and counts of all micro-batches are summed over the ranks; gradients are of the sum, and
// updates divide by the count. reduce_loss also carries squares for the noise scale, flags of parameters with a gradient (if
// blocks may leave some without) and votes. If one rank holds the whole model, it runs right after the last loss, overlapping
// backward; with squares, after the last of these; with flags or votes, which are taken as late as a step allows, after the
// last backward. With a pipeline, where only last stages have losses, it runs once the pipeline is empty.
//
// Memory: 0. Traffic: 2 (n-1)/n of 24 bytes (sum, count and nominal targets as float64) per micro-batch of the global batch,
// 168 bytes (an exact sum) for the squares, and 8 bytes per flagged parameter and per vote. Runs after all gradient
// reductions, before add_norms.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds the reduce_loss.
InstructionList sum_losses(InstructionList list, const Program& program);

}  // namespace weft
