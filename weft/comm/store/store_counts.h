// StoreCounts: what a store server has done so far.
#pragma once

#include <cstdint>

namespace weft {

struct StoreCounts {
  int64_t connections = 0;  ///< that have proven themselves
  int64_t dropped = 0;      ///< that have not
  int64_t requests = 0;
  int64_t bytes_in = 0, bytes_out = 0;
};

}  // namespace weft
