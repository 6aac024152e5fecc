// Pass: before the update of a block that needs whole gradient tensors, or values derived from them, every rank gathers them
// from the shards: the matrices that Muon orthogonalises, or Adafactor's means over rows and columns.
//
// Memory: the whole gradients of one block at once, in the gathered type. Traffic: (n-1)/n of their bytes, once per step; 0 if
// one rank owns all. All ranks of the shard axis then work on the same whole tensors, and each updates its own part. Runs
// after update and offload_state, which reloads the block's state first.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds a gather before each update that needs one.
InstructionList gather_gradients(InstructionList list, const Program& program);

}  // namespace weft
