// BatchSizes: the global batch of every step of a run, which a ramp lets grow: a number of steps with each batch, in phases.
// What a step is to everything that counts in samples: where its samples begin, and which step reaches so many.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// Steps with one global batch, before the next phase.
struct BatchPhase {
  int64_t global_batch = 1;  ///< samples a step, over all ranks
  int64_t steps = 1;         ///< with that many
};

/// The phases before the last, which has the run's global batch and no end. Empty: every step has that.
using BatchRamp = std::vector<BatchPhase>;

/// The sizes of a run's steps. Phases and steps are counted from 0.
class BatchSizes {
 public:
  /// The phases of `ramp`, then `global_batch`; all numbers are at least 1.
  explicit BatchSizes(int64_t global_batch, const BatchRamp& ramp = {});

  int num_phases() const { return static_cast<int>(phases_.size()); }        ///< at least 1
  int phase_at(int64_t step) const;                                          ///< of a step
  int64_t of_phase(int phase) const { return phases_[phase].global_batch; }  ///< samples a step
  int64_t first_step(int phase) const { return phases_[phase].first_step; }  ///< of a phase
  int64_t at(int64_t step) const { return of_phase(phase_at(step)); }        ///< samples of a step
  int64_t samples_before(int64_t step) const;                                ///< of all steps before it
  /// The fewest steps that have so many samples; a whole number, perhaps above what an integer holds.
  double steps_for(double samples) const;

 private:
  struct Phase {
    int64_t global_batch, first_step, first_sample;
  };
  std::vector<Phase> phases_;
};

}  // namespace weft
