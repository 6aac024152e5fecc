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

/// The blocks [first, last) of a stage.
struct StageBlocks {
  int first = 0;  ///< the first block
  int last = 0;   ///< the block after the last
};

/// The blocks of each stage of a model of `num_blocks`; `first_block` is not checked.
std::vector<StageBlocks> stages_of(const std::vector<int>& first_block, int num_blocks);

/// The blocks of each stage of a schedule; `first_block` has the first of each, ascending from 0. Throws InputError unless it
/// has one for every stage.
std::vector<StageBlocks> stage_blocks(const ModelCost& model, const Schedule& schedule, const std::vector<int>& first_block);

/// The list of each pipeline rank: what the schedule's tasks do, and no more.
std::vector<InstructionList> stage_lists(const ModelCost& model, const Schedule& schedule,
                                         const std::vector<StageBlocks>& stages);

}  // namespace weft
