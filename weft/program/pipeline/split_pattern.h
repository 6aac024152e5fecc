// The pattern that ZB-H1 and ZB-H2 share: one stage a rank, forwards some way ahead of the input's backward, the weights' part
// some way behind it, and otherwise one of each in turn.
#pragma once

#include <functional>
#include <string_view>

#include "weft/program/pipeline/shape.h"

namespace weft {

/// How far each rank runs ahead, and how far behind.
struct SplitPattern {
  std::function<int(int rank)> ahead;      ///< forwards before the first backward, beside its own
  std::function<int(int rank)> kept_back;  ///< micro-batches whose weight parts wait
};

/// The schedule of a pattern. Throws InputError as one_stage_a_rank() does.
Schedule split_schedule(std::string_view name, const PipelineShape& shape, const SplitPattern& pattern);

}  // namespace weft
