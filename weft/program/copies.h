// Copies: the pipeline ranks that run the same blocks, each on its part of the micro-batches (Program::copies).
//
// The first of them owns the blocks: it loads every micro-batch, computes every loss, has the optimizer's state and alone
// updates. Weights go out from it, and gradients come back, along a binomial tree: the one over which group.h adds up, so that
// sums have the same bits as there. A block with one copy is its owner's alone, on all micro-batches.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Micro-batches [first, last).
struct MicroRange {
  int first = 0;                                                        ///< the first of them
  int last = 0;                                                         ///< the one after the last
  bool has(int micro) const { return first <= micro && micro < last; }  ///< whether this is one of them
};

/// The micro-batches that a pipeline rank runs its blocks on: of as many equal parts of a step's as there are copies, its own.
MicroRange micros_run(const Program& program, int pp);
/// Those of a slot, which is counted from the rank's first, among `micros`.
MicroRange micros_of_slot(const Program& program, const MicroRange& micros, int slot);

/// Whether a pipeline rank owns the blocks that it runs.
bool owns_blocks(const Program& program, int pp);

/// Where a copy other than the first has its weights from, and sends its gradients to.
int tree_parent(int copy);
/// Whose parent it is, nearest first: the order in which their gradients are added to its own.
std::vector<int> tree_children(int copy, int copies);

}  // namespace weft
