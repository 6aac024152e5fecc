// The parts of recorded calls that tests compare.
#pragma once

#include <vector>

#include "weft/nn/cost/recorded_group.h"

namespace weft {

/// The messages sent, regardless of their time.
inline std::vector<RecordedCall> sent(std::vector<RecordedCall> calls) {
  for (RecordedCall& call : calls) call.begins_at = call.waited_at = 0.0;
  return calls;
}

}  // namespace weft
