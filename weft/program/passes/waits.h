// Pass: who waits for whom. Fills in `waits` from what each instruction reads and writes: micro-batches, activations and their
// gradients, the blocks' weights and gradients and the buffers they share, what is offloaded, the summed loss, the
// norm.
//
// A collective also waits for all sends before it: an engine may have to move what is on its way to a peer itself, and must not
// stand still in a collective that the peer comes to only once it has it.
//
// Of several instructions on the compute lane only the latest is listed, since that lane finishes them in order; those on
// other lanes are all listed. Comes last: passes that move instructions run before it. A list whose producers are missing gets
// no waits for them; verify() says so.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Fills in all `waits`; `buffers` are the list's.
InstructionList link_waits(InstructionList list, const Program& program, const Buffers& buffers);

}  // namespace weft
