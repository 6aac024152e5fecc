// calibrate: costs of training on the machine at hand, as a hardware file has them: operators by class, links, memory.
//
// All ranks measure at once, so they share caches, memory and links as in a run.
#pragma once

#include <vector>

#include "weft/comm/call/group_options.h"
#include "weft/comm/world.h"
#include "weft/program/simulate/hardware.h"
#include "weft/train/measure/fit_rates.h"

namespace weft {

/// Result of a calibration, the same on all ranks.
struct Calibration {
  Hardware hardware;
  std::vector<FitError> errors;  ///< of the rates
};

/// Measures with at::get_num_threads() threads per rank, on options.device; of each operator the median of `turns` turns
/// counts. Collective over the world.
Calibration calibrate(const World& world, const GroupOptions& options, int turns);

}  // namespace weft
