#include "weft/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft {

double rate_factor(RateScaling scaling, int64_t batch, int64_t reference) {
  const double k = static_cast<double>(batch) / static_cast<double>(reference);
  return scaling == RateScaling::none ? 1.0 : scaling == RateScaling::linear ? k : std::sqrt(k);
}

double LearningRate::at(int64_t step) const {
  if (step < warmup) {
    const double way = static_cast<double>(step + 1) / static_cast<double>(warmup);
    return peak * (warmup_share == 0.0 ? way : warmup_share + (1.0 - warmup_share) * way);
  }
  const int64_t top = std::max<int64_t>(0, warmup - 1);  // the step with the peak
  const double length = static_cast<double>(std::max<int64_t>(1, steps - 1 - top));
  const double progress = std::min(1.0, static_cast<double>(step - top) / length);
  const auto above_final = [this](double share) { return peak * (final_share + (1.0 - final_share) * share); };
  switch (decay) {
    case Decay::constant:
      return peak;
    case Decay::linear:
      return above_final(1.0 - progress);
    case Decay::cosine:
      return above_final(0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case Decay::step: {
      const int64_t drops = (step - warmup) / decay_every;
      return peak * std::pow(decay_factor, static_cast<double>(drops));
    }
  }
  return peak;
}

double rate_at(const LearningRate& rate, const std::vector<RatePhase>& phases, int64_t step) {
  LearningRate own = rate;
  const auto phase = std::find_if(phases.begin(), phases.end(), [step](const RatePhase& p) { return step < p.before_step; });
  if (phase != phases.end()) {
    own.peak = phase->peak;
    own.warmup_share = phase->warmup_share;
  }
  return own.at(step);
}

}  // namespace weft
