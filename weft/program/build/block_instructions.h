// Block instructions: the instructions of a step for one block and micro-batch, with their costs.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Load of a micro-batch by the rank that runs its first block.
Instruction load_inputs(const ModelCost& model, int micro);
/// Loss of a micro-batch.
Instruction loss_of(const ModelCost& model, int micro);
/// Forward of a block.
Instruction forward_of(const ModelCost& model, int block, int micro);
/// Backward of a block, or a part of it; `input_received`: the block's input came from another rank.
Instruction backward_of(const ModelCost& model, Op op, int block, int micro, bool input_received);
/// Send or receive of a block's output, or its gradient.
Instruction transfer_of(const ModelCost& model, Op op, Payload what, int block, int micro, int peer);

}  // namespace weft
