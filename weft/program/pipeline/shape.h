// PipelineShape: the sizes that every pipeline schedule starts from.
//
// The schedules are right for any number of micro-batches; make_schedule() asks users for as many as there are ranks.
#pragma once

#include <string_view>

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// The sizes of a pipeline.
struct PipelineShape {
  int ranks = 1;          ///< of the pipeline
  int chunks = 1;         ///< stages a rank
  int micro_batches = 1;  ///< of a step
};

/// Throws InputError when a size is not positive.
void check_positive(std::string_view name, const PipelineShape& shape);

/// A schedule without tasks yet, stage s on rank s. Throws InputError when a size is not positive or there is more than one
/// chunk a rank.
Schedule one_stage_a_rank(std::string_view name, const PipelineShape& shape);

}  // namespace weft
