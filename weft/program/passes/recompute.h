// Pass: recompute (activation checkpointing; Chen et al. 2016, arXiv:1604.06174). A chosen block drops the activations its
// forward kept for backward, except its input, and runs its forward again right before its backward.
//
// Memory saved: the kept activations of the chosen blocks, except one block's. Operations: one more forward of each. Traffic:
// 0, as a sharded block is gathered for backward anyway. A block whose backward comes right after its forward (the last one) is
// skipped, since recomputing it would save nothing; so is the model's last block, whose output the loss needs. Random numbers
// are keyed, so the second forward gives the same bits. Runs first, on the list of a rank's stages.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Selection of blocks to recompute.
struct RecomputeOptions {
  int every = 0;  ///< 1: every block, k: blocks 0, k, 2k, ...; 0: off
};

/// Adds a drop after each chosen block's forward, and a second forward before its backward.
InstructionList recompute(InstructionList list, const ModelCost& model, const RecomputeOptions& options);

}  // namespace weft
