// block_work: cost of each block on one micro-batch, taken from a one-rank program by the rules of simulate()
// (program/simulate/work_time.h).
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
  int64_t kept_bytes = 0;  ///< activations kept from forward to backward
};

/// Returns the work of each block under the layout, recompute included. Throws InputError if hardware.blocks names a block that
/// the model lacks.
std::vector<BlockWork> block_work(const ModelCost& cost, const LayoutOptions& options, const StepCounts& counts,
                                  const Hardware& hardware);

/// The time of each block, forward and backward together.
std::vector<double> block_seconds(const std::vector<BlockWork>& work);

/// The times of each stage: the sums over its blocks.
std::vector<StageTimes> stage_times(const std::vector<BlockWork>& work, const std::vector<int>& first_block);

}  // namespace weft
