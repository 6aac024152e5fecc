// BatchSizes: the global batch size of every step of a run, with an optional ramp: a list of phases, each a number of steps
// with the same batch size. Converts between steps and samples.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// Consecutive steps with the same global batch.
struct BatchPhase {
  int64_t global_batch = 1;  ///< samples per step, over all ranks
  int64_t steps = 1;         ///< length of the phase
};

/// All phases except the last, which uses the run's global batch and never ends. Empty: no ramp.
using BatchRamp = std::vector<BatchPhase>;

/// Batch sizes of a run's steps. Phases and steps are counted from 0.
class BatchSizes {
 public:
  /// The phases of `ramp`, then `global_batch`; all numbers are at least 1.
  explicit BatchSizes(int64_t global_batch, const BatchRamp& ramp = {});

  int num_phases() const { return static_cast<int>(phases_.size()); }        ///< at least 1
  int phase_at(int64_t step) const;                                          ///< phase of a step
  int64_t of_phase(int phase) const { return phases_[phase].global_batch; }  ///< samples per step
  int64_t first_step(int phase) const { return phases_[phase].first_step; }  ///< first step of a phase
  int64_t at(int64_t step) const { return of_phase(phase_at(step)); }        ///< samples in a step
  int64_t samples_before(int64_t step) const;                                ///< samples in all earlier steps
  /// Returns the smallest number of steps that covers `samples`: a whole number, but possibly too large for int64_t.
  double steps_for(double samples) const;

 private:
  struct Phase {
    int64_t global_batch, first_step, first_sample;
  };
  std::vector<Phase> phases_;
};

}  // namespace weft
