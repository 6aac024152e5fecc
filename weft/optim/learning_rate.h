// Learning rate by step: linear warm-up, then constant, linear, cosine or step decay. The peak is reached at the warm-up's last
// step, or at the first where there is none, and the final rate exactly at the run's last step.
#pragma once

#include <cstdint>

#include "weft/base/enum_names.h"

namespace weft {

/// How the learning rate falls after the warm-up.
enum class Decay { constant, linear, cosine, step };
/// The words for decays, as recipes have them.
inline constexpr EnumNames<Decay, 4> kDecays("constant", "linear", "cosine", "step");

/// The learning rate of every step of a run.
struct LearningRate {
  double peak = 0.0;              ///< in TrainerOptions 0 stands for the optimizer's lr
  int64_t warmup = 0;             ///< steps; step s of them has peak (s + 1) / warmup
  int64_t steps = 1;              ///< of the whole run: linear and cosine go from the step of the peak to its last one
  Decay decay = Decay::constant;  ///< from the step of the peak on
  double final_share = 0.0;       ///< linear, cosine: share of the peak at the last step and after it
  int64_t decay_every = 1;        ///< step: steps between drops, counted after the warm-up
  double decay_factor = 0.1;      ///< step: factor of each drop

  /// The learning rate of a step, counted from 0.
  double at(int64_t step) const;
};

}  // namespace weft
