// LossScale: fp16's dynamic loss scale, which the host keeps, and with it a device that judges steps (step_numbers.h): the host
// learns of a step's overflow when the next one is under way.
#pragma once

#include <cstdint>

#include "weft/base/host_device.h"

namespace weft {

/// Dynamic loss scaling (Micikevicius et al. 2018, arXiv:1710.03740): halved when a gradient is not finite, and the step is
/// skipped; doubled after 2 000 good steps in a row. Part of the training state.
struct LossScale {
  double scale = 1.0;         ///< factor on losses; a power of two
  int64_t good_steps = 0;     ///< since the scale last changed
  int64_t skipped_steps = 0;  ///< of the whole run
};

inline constexpr double kFirstLossScale = 65536.0;
inline constexpr double kLargestLossScale = 18446744073709551616.0;  ///< 2^64: limits growth while gradients are all zero
inline constexpr int64_t kLossScaleInterval = 2000;                  ///< good steps until it grows

/// Whether a smaller scale may help against a gradient that is not finite.
WEFT_HOST_DEVICE inline bool can_skip(const LossScale& loss) { return loss.scale > 1.0; }

WEFT_HOST_DEVICE inline void count_skipped_step(LossScale& loss) {
  loss.scale /= 2.0;
  loss.good_steps = 0;
  ++loss.skipped_steps;
}

WEFT_HOST_DEVICE inline void count_good_step(LossScale& loss) {
  if (++loss.good_steps != kLossScaleInterval) return;
  const double most = loss.scale > kLargestLossScale ? loss.scale : kLargestLossScale, doubled = loss.scale * 2.0;
  loss.scale = doubled < most ? doubled : most;
  loss.good_steps = 0;
}

/// A loss scale on a device.
struct DeviceLossScale {
  int64_t known_skips = 0;  ///< LossScale::skipped_steps as the host knows them when it issues the step
  LossScale loss = {};
};

inline constexpr int64_t kLossScaleWords = sizeof(DeviceLossScale) / sizeof(int64_t);

}  // namespace weft
