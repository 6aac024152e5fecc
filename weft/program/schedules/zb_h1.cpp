#include "weft/program/schedules/zb_h1.h"

#include "weft/program/pipeline/split_pattern.h"

namespace weft {

Schedule zb_h1_schedule(const PipelineShape& shape) {
  return split_schedule(
      "zb-h1", shape,
      {.ahead = [p = shape.ranks](int rank) { return p - 1 - rank; }, .kept_back = [](int rank) { return rank; }});
}

}  // namespace weft
