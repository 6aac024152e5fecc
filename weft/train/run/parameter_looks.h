// ParameterLooks: what is read of the model's parameters after some steps, on all ranks: which do not learn (gradient_looks.h),
// and histograms.
#pragma once

#include <cstdint>

#include "weft/train/run/gradient_looks.h"
#include "weft/train/run/run_records.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

class ParameterLooks {
 public:
  /// After each step, on all ranks. Every `histograms_every` steps of the run (0: never) their records are added, on rank 0.
  /// Collective over the world in steps with a look.
  void after_step(Trainer& trainer, int64_t histograms_every, RunRecords& records);

 private:
  GradientLooks gradients_;
};

}  // namespace weft
