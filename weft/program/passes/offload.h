// Pass: offload. State that a step rarely needs lives in slower memory (host memory, or a file) and is reloaded for use:
// optimizer state and the rank's own shard of the weights for the update, the shard also for its gather, a block's input for
// its recompute.
//
// Memory saved: the offloaded state, except that of one block at a time (of two with reload_ahead). A block's input is the
// output of the block before, and is freed with it. If that block's own backward needs it, and that block is not recomputed,
// the input stays. Traffic between ranks: 0; to and from slower memory: the optimizer state and the shard both ways once per
// step (and the shard in once per gather, as float32), block inputs both ways once per micro-batch. offload_activations comes
// right after recompute, since only recomputed blocks can spare their input; offload_state comes after update and splits it by
// block.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Offloads each dropped block's input after its drop, and reloads it before its recompute. Runs right after recompute.
InstructionList offload_activations(InstructionList list, const ModelCost& model, const OffloadOptions& options);
/// Reloads optimizer state and the shard around each update, which it splits by block. Runs after update.
InstructionList offload_state(InstructionList list, const OffloadOptions& options);
/// Reloads the shard around each gather from it. Runs after shard_parameters.
InstructionList offload_shards(InstructionList list, const OffloadOptions& options);
/// Declares what each move copies (Instruction::copy_bytes): an input as it is, optimizer state, and of the shard the float32
/// weights, frozen ones included; out only if an update has changed them. Runs last.
void declare_copies(InstructionList& list, const ModelCost& model, const Program& program);

}  // namespace weft
