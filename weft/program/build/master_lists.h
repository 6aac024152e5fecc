// Master lists: the step of naive data parallelism, like torch.nn.DataParallel, without the transfers of weights and gradients,
// which passes/one_owner.h adds.
//
// The master loads all micro-batches and sends the other ranks theirs, every rank runs forward on its part, outputs return, the
// master computes all losses and sends the gradients of the outputs, and every rank runs backward. All ranks wait while the
// master computes losses; the master waits for the slowest rank.
//
// Memory: on the master, inputs, outputs and output gradients of the whole global batch; on every rank, activations of all of
// its micro-batches. Traffic: the master sends inputs and output gradients of all micro-batches except its own, the others send
// their outputs.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Lists of the pipeline ranks of a program with a master.
std::vector<InstructionList> master_lists(const ModelCost& model, const Program& program);

}  // namespace weft
