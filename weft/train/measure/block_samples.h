// block_samples: times of whole blocks in training steps, beside what their operators take alone. weft calibrate learns from
// them what steps add (fit_rates.h).
#pragma once

#include <chrono>
#include <vector>

#include "weft/comm/world.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// One pass of a block.
struct BlockSample {
  double bytes = 0.0;       ///< that its operators read and write
  double alone_s = 0.0;     ///< sum of its operators' times by the hardware's rates
  double measured_s = 0.0;  ///< in training steps
};

/// Trains small transformers and convolutional networks with small and large micro-batches for some steps on all ranks, each
/// with `threads` threads. `hardware` has rates of that many. The same on all ranks. Collective over the world.
std::vector<BlockSample> measure_blocks(const World& world, const Hardware& hardware, int threads,
                                        std::chrono::milliseconds timeout);

}  // namespace weft
