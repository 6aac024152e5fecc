// StoreCounts: totals of a store server.
#pragma once

#include <cstdint>

namespace weft {

/// Totals so far.
struct StoreCounts {
  int64_t connections = 0;  ///< authenticated connections
  int64_t dropped = 0;      ///< connections dropped before authentication
  int64_t requests = 0;     ///< answered or waiting
  int64_t bytes_in = 0;     ///< read
  int64_t bytes_out = 0;    ///< sent
};

}  // namespace weft
