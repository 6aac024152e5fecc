// StoreCounts: what a store server has done so far.
#pragma once

#include <cstdint>

namespace weft {

/// What it has done.
struct StoreCounts {
  int64_t connections = 0;  ///< that have proven themselves
  int64_t dropped = 0;      ///< that have not
  int64_t requests = 0;     ///< answered or waiting
  int64_t bytes_in = 0;     ///< read
  int64_t bytes_out = 0;    ///< sent
};

}  // namespace weft
