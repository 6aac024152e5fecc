// Master: naive data parallelism, the form of torch.nn.DataParallel, as programs have it (Program::master).
//
// The pipeline ranks hold the whole model each, and run it on a part of the micro-batches. The first of them, the master, owns
// it: it loads every micro-batch, computes every loss, has the optimizer's state and alone updates. Weights go out from it, and
// gradients come back, along a binomial tree: the one over which group.h adds up, so that sums have the same bits as there.
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

/// The micro-batches that a pipeline rank runs its blocks on: all of a step, or with a master a contiguous part of them.
MicroRange micros_run(const Program& program, int pp);
/// The same of a world rank.
MicroRange micros_run_by(const Program& program, int rank);
/// Those of a slot, which is counted from the rank's first, among `micros`.
MicroRange micros_of_slot(const Program& program, const MicroRange& micros, int slot);

/// Whether a world rank updates what it holds: with a master only that one does.
bool owns_model(const Program& program, int rank);

/// Where a pipeline rank other than the first has its weights from, and sends its gradients to.
int tree_parent(int pp);
/// Whose parent it is, nearest first: the order in which their gradients are added to its own.
std::vector<int> tree_children(int pp, int ranks);

}  // namespace weft
