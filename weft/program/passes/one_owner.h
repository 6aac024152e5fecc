// Pass: one owner. Weights are sent from their owner to the other copies (copies.h) before their first use in a step, and
// gradients are summed towards it once a rank has all of its own, both along the tree. Weights are sent in every step, even if
// unchanged.
//
// Memory: whole weights and gradients on every rank; during a sum, the block's gradients twice. Traffic: each rank except the
// owner receives its weights once, frozen ones too, and sends its gradients once: in total ranks - 1 times both; the owner
// sends weights to, and receives gradients from, log2(ranks) ranks. Runs after recompute and slots, replacing replicate.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Adds the transfers to the list of pipeline rank `pp`. Does nothing if each block has one copy.
InstructionList one_owner(InstructionList list, const Program& program, int pp);

}  // namespace weft
