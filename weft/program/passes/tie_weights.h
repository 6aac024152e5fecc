// Pass: tied weights on several stages. Each of them holds the block; after all other sums, its gradients are summed over these
// ranks, so that all make the same update.
//
// Memory: a copy of the block's weights, gradients and optimizer state on each further rank. Traffic: 2 (n-1)/n of the rank's
// part of the block's gradients or, if more than two uses have separate sums (Program::uses_apart), of all these sums. Runs
// after replicate or shard_gradients, before sum_losses; the pipeline is then empty, so no rank waits for another's later task.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds a reduce per block that several pipeline ranks hold.
InstructionList tie_weights(InstructionList list, const Program& program);

}  // namespace weft
