// Pass: after the update of its shard, every rank gathers the whole weights again (the end of a step of ZeRO-1 and 2).
//
// Memory: none beyond the whole weights that these levels keep. Traffic: (n-1)/n of the weight bytes. Runs after update.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds a gather of each block after its update.
InstructionList gather_updated(InstructionList list, const Program& program);

}  // namespace weft
