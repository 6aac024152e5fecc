// RunFigures: the last step of a run in numbers, as rank 0 leaves them with its launcher for monitoring.
#pragma once

#include <cstdint>

namespace weft {

struct RunFigures {
  double loss = 0.0;           ///< of the last step
  double lr = 0.0;             ///< its learning rate
  double samples = 0.0;        ///< of the run so far
  double tokens = 0.0;         ///< the same; 0 for models that do not read tokens
  double samples_per_s = 0.0;  ///< over the last few steps
  double memory_bytes = 0.0;   ///< of rank 0's process
  int64_t saved_ns = 0;        ///< when the last checkpoint was complete, CLOCK_MONOTONIC; 0: none in this launch
  int64_t step_ns = 0;         ///< when these were set; 0: never
};

}  // namespace weft
