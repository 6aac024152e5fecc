// Stages: the instructions of a schedule's tasks, for each pipeline rank: loads, forwards, losses, backwards, and the transfers
// between stages on different ranks. Passes do the rest.
//
// Transfers have one order over all ranks: by the time at which their data is made, if every stage takes equally long. Each
// rank issues them in that order, so they cannot deadlock even if a send waits for its receive. A receive comes before the
// first task that could start after that time, not just before the task that needs it.
//
// Memory per rank: activations that forwards keep, an input per micro-batch in flight, a gradient in flight. Traffic: the
// output of a stage's last block and its gradient, once per micro-batch.
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

/// Returns the blocks of each stage of a model of `num_blocks`; `first_block` is not checked.
std::vector<StageBlocks> stages_of(const std::vector<int>& first_block, int num_blocks);

/// Returns the blocks of each stage of a schedule; `first_block` has the first block of each, ascending from 0. Throws
/// InputError unless it has one entry per stage.
std::vector<StageBlocks> stage_blocks(const ModelCost& model, const Schedule& schedule, const std::vector<int>& first_block);

/// Returns the list of each pipeline rank: the schedule's tasks only.
std::vector<InstructionList> stage_lists(const ModelCost& model, const Schedule& schedule,
                                         const std::vector<StageBlocks>& stages);

}  // namespace weft
