#include "weft/program/schedules/zb_h2.h"

#include "weft/program/pipeline/split_pattern.h"

namespace weft {

Schedule zb_h2_schedule(const PipelineShape& shape) {
  return split_schedule(
      "zb-h2", shape,
      {.ahead = [p = shape.ranks](int rank) { return 2 * (p - 1 - rank); }, .kept_back = [](int rank) { return 2 * rank; }});
}

}  // namespace weft
