// Pass: tied weights on several stages. Each of them holds the block; once all else is summed, its gradients are summed over
// those ranks, so that all make the same update.
//
// Memory: a copy of the block's weights, gradients and optimizer state on each further rank. Traffic: 2 (n-1)/n of what a rank
// owns of its gradients; where more than two uses have sums of their own (Program::uses_apart), of all of these. Comes after
// replicate or shard_gradients, before sum_losses; the pipeline is empty by then, so that no rank waits for another's later
// task.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds a reduce of each block that several pipeline ranks hold.
InstructionList tie_weights(InstructionList list, const Program& program);

}  // namespace weft
