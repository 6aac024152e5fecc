// Pass: one owner. Weights are copied from the rank that owns them to the other copies (copies.h) before their first use in a
// step, and gradients summed towards it once a rank has all of its own, both along the tree. Weights are copied anew each step,
// changed or not.
//
// Memory: whole weights and gradients on every rank; while a sum is taken in, the block's gradients once more. Traffic: for
// each rank but the owner its weights once, frozen ones too, and its gradients once, which come to ranks - 1 times both over
// all ranks; the owner sends weights to, and receives gradients from, log2(ranks) of them. Comes after recompute and slots, in
// place of replicate.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds them to the list of pipeline rank `pp`. Does nothing where each block has one copy.
InstructionList one_owner(InstructionList list, const Program& program, int pp);

}  // namespace weft
