// block_work: what each block of a model costs a rank on one micro-batch, read off a program of one rank by the rules that
// simulate() goes by (program/simulate/work_time.h).
#pragma once

#include <vector>

#include "weft/plan/layout/layout.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/program.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// The work of one block.
struct BlockWork {
  StageTimes times;        ///< the loss is part of the last block's backward
  int64_t kept_bytes = 0;  ///< of activations, from a forward till its backward
};

/// The work of each block, as the layout has it run: recompute included. Throws InputError for times of blocks that the model
/// lacks.
std::vector<BlockWork> block_work(const ModelCost& cost, const LayoutOptions& options, const StepCounts& counts,
                                  const Hardware& hardware);

/// The time of each block, forward and backward together.
std::vector<double> block_seconds(const std::vector<BlockWork>& work);

/// The times of each stage: the sums over its blocks.
std::vector<StageTimes> stage_times(const std::vector<BlockWork>& work, const std::vector<int>& first_block);

}  // namespace weft
