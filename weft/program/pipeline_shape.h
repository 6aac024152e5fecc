// PipelineShape: the sizes that every pipeline schedule starts from, and the rules that schedules share.
#pragma once

#include <string_view>

#include "weft/program/schedule.h"

namespace weft {

struct PipelineShape {
  int ranks = 1;
  int chunks = 1;  ///< stages a rank
  int micro_batches = 1;
};

/// Throws InputError when a size is not positive.
void check_positive(std::string_view name, const PipelineShape& shape);

/// A schedule without tasks yet, stage s on rank s. Throws InputError when a size is not positive or there is more than one
/// chunk a rank.
Schedule one_stage_a_rank(std::string_view name, const PipelineShape& shape);

/// Throws InputError when there are fewer micro-batches than ranks: some rank would never be busy at the same time as another.
void check_fills_ranks(std::string_view name, const PipelineShape& shape);

}  // namespace weft
