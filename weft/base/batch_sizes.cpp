#include "weft/base/batch_sizes.h"

#include <cmath>

namespace weft {

BatchSizes::BatchSizes(int64_t global_batch, const BatchRamp& ramp) {
  phases_.reserve(ramp.size() + 1);
  int64_t step = 0, sample = 0;
  for (const BatchPhase& phase : ramp) {
    phases_.push_back({phase.global_batch, step, sample});
    step += phase.steps;
    sample += phase.steps * phase.global_batch;
  }
  phases_.push_back({global_batch, step, sample});
}

int BatchSizes::phase_at(int64_t step) const {
  int phase = num_phases() - 1;
  while (phase > 0 && step < phases_[phase].first_step) --phase;
  return phase;
}

int64_t BatchSizes::samples_before(int64_t step) const {
  const Phase& phase = phases_[phase_at(step)];
  return phase.first_sample + (step - phase.first_step) * phase.global_batch;
}

double BatchSizes::steps_for(double samples) const {
  int phase = num_phases() - 1;
  while (phase > 0 && samples <= static_cast<double>(phases_[phase].first_sample)) --phase;
  const Phase& reached = phases_[phase];
  const double more = samples - static_cast<double>(reached.first_sample);
  return static_cast<double>(reached.first_step) + std::ceil(more / static_cast<double>(reached.global_batch));
}

}  // namespace weft
