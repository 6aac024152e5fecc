// Learning rate by step: linear warm-up, then constant, linear, cosine or step decay. The peak is reached at the warm-up's last
// step, or at the first where there is none, and the final rate exactly at the run's last step.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// How the learning rate falls after the warm-up.
enum class Decay { constant, linear, cosine, step };
/// The words for decays, as recipes have them.
inline constexpr EnumNames<Decay, 4> kDecays("constant", "linear", "cosine", "step");

/// How a rate that was found for one global batch is taken to another: times k = batch / reference, which keeps what an epoch
/// of SGD moves where gradients hardly change meanwhile (Goyal et al. 2017, arXiv:1706.02677); times sqrt(k), which keeps the
/// noise of Adam's steps (Malladi et al. 2022, arXiv:2205.10287); or not at all.
enum class RateScaling { none, linear, sqrt };
/// The words for them, as recipes have them.
inline constexpr EnumNames<RateScaling, 3> kRateScalings("none", "linear", "sqrt");

/// What a rate is multiplied by.
double rate_factor(RateScaling scaling, int64_t batch, int64_t reference);

/// What holds of a learning rate before a step: with a smaller batch.
struct RatePhase {
  int64_t before_step = 0;    ///< where the next phase begins
  double peak = 0.0;          ///< in place of LearningRate's
  double warmup_share = 0.0;  ///< the same
};

/// The learning rate of every step of a run.
struct LearningRate {
  double peak = 0.0;              ///< in TrainerOptions 0 stands for the optimizer's lr
  int64_t warmup = 0;             ///< steps; step s of them is (s + 1) / warmup of the way to the peak
  double warmup_share = 0.0;      ///< share of the peak that this way begins at; in [0, 1]
  int64_t steps = 1;              ///< of the whole run: linear and cosine go from the step of the peak to its last one
  Decay decay = Decay::constant;  ///< from the step of the peak on
  double final_share = 0.0;       ///< linear, cosine: share of the peak at the last step and after it
  int64_t decay_every = 1;        ///< step: steps between drops, counted after the warm-up
  double decay_factor = 0.1;      ///< step: factor of each drop

  /// The learning rate of a step, counted from 0.
  double at(int64_t step) const;
};

/// The same where phases have peaks of their own, in order, before the one that `rate` tells; warm-up and decay go on through
/// them.
double rate_at(const LearningRate& rate, const std::vector<RatePhase>& phases, int64_t step);

}  // namespace weft
