// Pass: waits. Fills in `waits` from what each instruction reads and writes: micro-batches, activations and their gradients,
// the blocks' weights and gradients and their shared buffers, offloaded state, the summed loss, the norm.
//
// A collective also waits for all earlier sends: an engine may have to progress a message to a peer itself, and must not block
// in a collective that the peer joins only after receiving it.
//
// Of several compute-lane instructions only the latest is listed, since that lane finishes them in order; instructions on other
// lanes are all listed. Runs last, after passes that move instructions. Missing producers get no waits; verify() reports them.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Fills in all `waits`; `buffers` are those of the list.
InstructionList link_waits(InstructionList list, const Program& program, const Buffers& buffers);

}  // namespace weft
