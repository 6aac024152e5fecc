// Copies: pipeline ranks that run the same blocks, each on its part of the micro-batches (Program::copies).
//
// The first copy owns the blocks: it loads every micro-batch, computes every loss, holds the optimizer state and is the only
// one that updates. Weights travel from it, and gradients back to it, along the binomial tree of comm/group.h's sums, so the
// bits are the same. With one copy, the rank that runs a block owns it and takes all micro-batches.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Micro-batches [first, last).
struct MicroRange {
  int first = 0;                                                        ///< first of the range
  int last = 0;                                                         ///< one past the last
  bool has(int micro) const { return first <= micro && micro < last; }  ///< true if it is in the range
};

/// Micro-batches that a pipeline rank runs: its even share of the step's micro-batches, one share per copy.
MicroRange micros_run(const Program& program, int pp);
/// Micro-batches of a slot, where `micros` are the rank's micro-batches and `slot` counts from its first slot.
MicroRange micros_of_slot(const Program& program, const MicroRange& micros, int slot);

/// True if a pipeline rank owns the blocks that it runs.
bool owns_blocks(const Program& program, int pp);

/// Parent of a copy (other than the first): the copy that sends it weights and takes its gradients.
int tree_parent(int copy);
/// Children of a copy, nearest first: the order in which their gradients are added to its own.
std::vector<int> tree_children(int copy, int copies);

}  // namespace weft
