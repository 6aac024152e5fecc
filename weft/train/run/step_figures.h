// StepFigures: what a run's steps so far add up to: rates, the trend of the loss, the noise scale.
#pragma once

#include <cstdint>

#include "weft/report/loss_trend.h"
#include "weft/report/meter.h"
#include "weft/report/noise_scale.h"
#include "weft/train/run/step_results.h"

namespace weft {

struct StepFigures {
  /// For a process that does `steps` steps.
  explicit StepFigures(int64_t steps, const NoiseSums& before = {}) : trend(steps), noise(before) {}

  /// Adds a step of `batch` samples in micro-batches of `micro_batch`.
  void add(const TakenStep& taken, int64_t batch, int64_t micro_batch);

  Meter meter = Meter();
  LossTrend trend;
  NoiseScale noise;
};

}  // namespace weft
