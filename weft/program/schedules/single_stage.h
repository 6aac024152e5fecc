// Schedule: all blocks on one rank, one micro-batch: load, forward through all blocks, loss, backward from the last to the
// first.
//
// Memory, at the peak, with s_b what block b's backward keeps, o_b its output and input the micro-batch as loaded:
//   input + max over b of (sum of s_i + o_i for i <= b) + o_b + o_(b-1)
// (everything up to block b, the gradient of its output and that of its input, while block b runs backward).
// Traffic: none. Everything is freed by the end.
#pragma once

#include "weft/program/program.h"

namespace weft {

InstructionList single_stage(const ModelCost& model);

}  // namespace weft
