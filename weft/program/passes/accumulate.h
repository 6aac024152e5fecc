// Pass: gradient accumulation. The list of one micro-batch, run for each of several, one after another; every backward adds
// to the same gradients.
//
// Memory: no more than one micro-batch needs. Traffic: none. Comes first, on a list of one micro-batch.
#pragma once

#include "weft/program/program.h"

namespace weft {

InstructionList accumulate(const InstructionList& list, int micro_batches);

}  // namespace weft
