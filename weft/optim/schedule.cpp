#include "weft/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft {

double LearningRate::at(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double length = static_cast<double>(std::max<int64_t>(1, steps - warmup));
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / length);
  switch (decay) {
    case Decay::constant:
      return peak;
    case Decay::linear:
      return peak * (1.0 - (1.0 - final_share) * progress);
    case Decay::cosine:
      return peak * (final_share + (1.0 - final_share) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case Decay::step: {
      const int64_t drops = (step - warmup) / decay_every;
      return peak * std::pow(decay_factor, static_cast<double>(drops));
    }
  }
  return peak;
}

}  // namespace weft
