// Master lists: the step of naive data parallelism, the form of torch.nn.DataParallel, but for weights and gradients, which
// passes/one_owner.h adds.
//
// The master loads all micro-batches and sends the others theirs, every rank runs forward on its part, outputs come back, the
// master computes all losses and sends the gradients of the outputs, and every rank runs backward. All ranks wait for the
// master while it computes losses, and it for the slowest of them.
//
// Memory: at the master inputs and outputs of the whole global batch, and the outputs' gradients; activations of all of a
// rank's micro-batches. Traffic: the master sends inputs and outputs' gradients of all micro-batches but its own, the others
// the outputs of theirs.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// The list of each pipeline rank of a program with a master.
std::vector<InstructionList> master_lists(const ModelCost& model, const Program& program);

}  // namespace weft
