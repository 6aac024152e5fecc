// The pattern that ZB-H1 and ZB-H2 share: one stage a rank, forwards some way ahead of the input's backward, the weights' part
// some way behind it, and otherwise one of each in turn.
#pragma once

#include <functional>
#include <string_view>

#include "weft/program/pipeline/shape.h"

namespace weft {

struct SplitPattern {
  std::function<int(int rank)> ahead;      ///< forwards before the first backward, beside its own
  std::function<int(int rank)> kept_back;  ///< micro-batches whose weight parts wait
};

Schedule split_schedule(std::string_view name, const PipelineShape& shape, const SplitPattern& pattern);

}  // namespace weft
