// Pass: offload. State that a step needs only now and then lives in slower memory (host memory, or a file) and is brought back
// for its moment: optimizer state and the rank's own shard of the weights for the update, the shard for its gather, a block's
// input from its forward to its recompute.
//
// Memory: what is offloaded, but for one block's at a time. An input is the output of the block before it, which is let go with
// it, unless that block's own backward needs it and the block is not computed again: then the input stays. Traffic between
// ranks: none; to and from slower memory: the optimizer state and the shard both ways once a step (and the shard in once a
// gather), block inputs both ways once a micro-batch. offload_activations comes right after recompute, whose blocks alone can
// do without their input; offload_state comes after update and splits it by block.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Moves each dropped block's input out after its drop, and back before its forward runs again. Comes right after recompute.
InstructionList offload_activations(InstructionList list, const ModelCost& model, const OffloadOptions& options);
/// Brings optimizer state and the shard back around each update, which it splits by block. Comes after update.
InstructionList offload_state(InstructionList list, const OffloadOptions& options);
/// Brings the shard back around each gather from it. Comes after shard_parameters.
InstructionList offload_shards(InstructionList list, const OffloadOptions& options);

}  // namespace weft
