// Pass: recompute (activation checkpointing; Chen et al. 2016, arXiv:1604.06174). A chosen block forgets what its forward kept
// for the backward, all but its input, and runs its forward once more right before its backward.
//
// Memory: the kept activations of the chosen blocks, one block's at a time. Operations: one more forward of each. Traffic:
// none, but a sharded block is gathered for it anyway. A block whose backward comes right after its forward (the last one) is
// left as it is: forgetting would save nothing; so is the model's last block, whose output the loss awaits. Random numbers are
// keyed, so the second forward gives the same bits. Comes first, on the list of a rank's stages.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Which blocks are computed again.
struct RecomputeOptions {
  int every = 0;  ///< 1: every block, k: blocks 0, k, 2k, ...; 0: none
};

/// Adds a drop after each chosen block's forward, and a second forward before its backward.
InstructionList recompute(InstructionList list, const ModelCost& model, const RecomputeOptions& options);

}  // namespace weft
