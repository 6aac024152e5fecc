// Pass: before the update of a block that needs whole tensors of its gradients, or of what the optimizer makes of them, every
// rank gathers them from the shards: the matrices that Muon orthogonalises, the means over rows and columns of Adafactor.
//
// Memory: the whole gradients of one block at a time, in the type that is gathered. Traffic: (n-1)/n of their bytes, once a
// step; none where a rank owns all. All ranks of the shard axis then work on the same whole tensors, and each updates what it
// owns. Comes after update and offload_state, which bring its state back first.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds a gather before each update of a block that needs one.
InstructionList gather_gradients(InstructionList list, const Program& program);

}  // namespace weft
