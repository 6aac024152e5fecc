// Learning rate by step: linear warm-up, then constant, linear, cosine or step decay. The peak is reached at the warm-up's last
// step, or at the first step without warm-up, and the final rate exactly at the run's last step.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// How the learning rate falls after the warm-up.
enum class Decay { constant, linear, cosine, step };
/// Names of the decays in recipes.
inline constexpr EnumNames<Decay, 4> kDecays("constant", "linear", "cosine", "step");

/// How a rate tuned for one global batch scales to another, with k = batch / reference. linear: times k, which keeps SGD's
/// movement per epoch while gradients change little (Goyal et al. 2017, arXiv:1706.02677). sqrt: times sqrt(k), which keeps the
/// noise of Adam's steps (Malladi et al. 2022, arXiv:2205.10287). none: unscaled.
enum class RateScaling { none, linear, sqrt };
/// Names of the scalings in recipes.
inline constexpr EnumNames<RateScaling, 3> kRateScalings("none", "linear", "sqrt");

/// Factor that scales a rate tuned for the batch `reference` to `batch`.
double rate_factor(RateScaling scaling, int64_t batch, int64_t reference);

/// Learning rate settings for the steps before `before_step`, which have a smaller batch.
struct RatePhase {
  int64_t before_step = 0;    ///< step at which the next phase begins
  double peak = 0.0;          ///< replaces LearningRate::peak
  double warmup_share = 0.0;  ///< replaces LearningRate::warmup_share
};

/// The learning rate of every step of a run.
struct LearningRate {
  double peak = 0.0;              ///< in TrainerOptions, 0 means the optimizer's lr
  int64_t warmup = 0;             ///< number of warm-up steps; step s of them is (s + 1) / warmup of the way to the peak
  double warmup_share = 0.0;      ///< share of the peak at which the warm-up begins; in [0, 1]
  int64_t steps = 1;              ///< length of the run: linear and cosine go from the step of the peak to the last step
  Decay decay = Decay::constant;  ///< from the step of the peak
  double final_share = 0.0;       ///< linear, cosine: share of the peak at the last step and after it
  int64_t decay_every = 1;        ///< step: steps between drops, counted after the warm-up
  double decay_factor = 0.1;      ///< step: factor of each drop

  /// The learning rate of a step, counted from 0.
  double at(int64_t step) const;
};

/// The same with earlier phases, in order, that have their own peaks; warm-up and decay continue across phases.
double rate_at(const LearningRate& rate, const std::vector<RatePhase>& phases, int64_t step);

}  // namespace weft
