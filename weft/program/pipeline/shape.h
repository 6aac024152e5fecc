// PipelineShape: the sizes from which every pipeline schedule is made.
//
// The schedules are valid for any number of micro-batches, but make_schedule() refuses some with fewer than ranks.
#pragma once

#include <string_view>

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// The sizes of a pipeline.
struct PipelineShape {
  int ranks = 1;          ///< ranks of the pipeline
  int chunks = 1;         ///< stages per rank
  int micro_batches = 1;  ///< micro-batches per step
};

/// Throws InputError when a size is not positive.
void check_positive(std::string_view name, const PipelineShape& shape);

/// Returns a schedule without tasks, stage s on rank s. Throws InputError if a size is not positive or there is more than one
/// chunk per rank.
Schedule one_stage_per_rank(std::string_view name, const PipelineShape& shape);

}  // namespace weft
