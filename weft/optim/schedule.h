// Learning rate by step: linear warm-up, then constant, linear, cosine or step decay.
#pragma once

#include <cstdint>

namespace weft {

enum class Decay { constant, linear, cosine, step };

struct LearningRate {
  double peak = 0.0;   ///< in TrainerOptions 0 stands for the optimizer's lr
  int64_t warmup = 0;  ///< steps; step s of them has peak (s + 1) / warmup
  int64_t steps = 1;   ///< of the whole run: where linear and cosine end
  Decay decay = Decay::constant;
  double final_share = 0.0;   ///< linear, cosine: share of the peak at the end
  int64_t decay_every = 1;    ///< step: steps between drops, counted after the warm-up
  double decay_factor = 0.1;  ///< step: factor of each drop

  /// `step` counts from 0.
  double at(int64_t step) const;
};

}  // namespace weft
