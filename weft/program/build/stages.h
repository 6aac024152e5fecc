// Stages: the instructions of a schedule's tasks, for each pipeline rank: loads, forwards, losses, backwards, and the transfers
// between stages on different ranks. Passes do the rest.
//
// Transfers stand in one order over all ranks, that of the moments at which their data is made if every stage takes the same
// time, and each rank meets them in that order; so they cannot deadlock even where a send waits for its receive. A receive
// stands before the first task that could start after that moment, not only before the one that needs it.
//
// Memory of a rank: what forwards keep, an input for every micro-batch in flight, a gradient on its way. Traffic: the output of
// a stage's last block and its gradient, once a micro-batch.
#pragma once

#include <vector>

#include "weft/program/pipeline/schedule.h"
#include "weft/program/program.h"

namespace weft {

/// Blocks [first, last) of a stage.
struct StageBlocks {
  int first = 0;
  int last = 0;
};

/// `first_block` of each stage, ascending from 0. Throws InputError unless it has a stage's block for every stage of the
/// schedule.
std::vector<StageBlocks> stage_blocks(const ModelCost& model, const Schedule& schedule, const std::vector<int>& first_block);

/// A list for each pipeline rank.
std::vector<InstructionList> stage_lists(const ModelCost& model, const Schedule& schedule,
                                         const std::vector<StageBlocks>& stages);

}  // namespace weft
