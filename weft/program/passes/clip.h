// Pass: clipping by the global gradient norm. One `norm` over all blocks once every gradient is final; updates wait for it.
//
// Memory: none. Traffic: none, every rank holds all gradients. It costs overlap: no update can start before the last reduce
// has finished. Comes after replicate.
#pragma once

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

InstructionList clip(const InstructionList& list, const Bucket& all);

}  // namespace weft
