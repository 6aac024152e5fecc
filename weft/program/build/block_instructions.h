// Block instructions: what a step does with one block on one micro-batch, with what it costs.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// The load of a micro-batch, by the rank that runs the first block on it.
Instruction load_inputs(const ModelCost& model, int micro);
/// The loss of a micro-batch.
Instruction loss_of(const ModelCost& model, int micro);
/// The forward of a block.
Instruction forward_of(const ModelCost& model, int block, int micro);
/// The backward of a block, or a part of it; `input_received`: what the block took as its input came from another rank.
Instruction backward_of(const ModelCost& model, Op op, int block, int micro, bool input_received);
/// Sends or receives a block's output, or the gradient of it.
Instruction transfer_of(const ModelCost& model, Op op, Payload what, int block, int micro, int peer);

}  // namespace weft
