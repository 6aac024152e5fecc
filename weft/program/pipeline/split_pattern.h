// The pattern of ZB-H1 and ZB-H2: one stage per rank; forwards run some way ahead of backward_input, backward_weight some way
// behind it, and otherwise one of each in turn.
#pragma once

#include <functional>
#include <string_view>

#include "weft/program/pipeline/shape.h"

namespace weft {

/// Leads and lags of each rank.
struct SplitPattern {
  std::function<int(int rank)> ahead;      ///< extra forwards before the first backward
  std::function<int(int rank)> kept_back;  ///< micro-batches with delayed weight parts
};

/// Returns the schedule of a pattern. Throws InputError as one_stage_per_rank() does.
Schedule split_schedule(std::string_view name, const PipelineShape& shape, const SplitPattern& pattern);

}  // namespace weft
