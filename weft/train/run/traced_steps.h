// TracedSteps: the steps of a run whose times are asked for: one for a trace of instructions (TrainOptions::trace_path), some
// for a profile (TrainOptions::profile_steps).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"
#include "weft/train/run/rank_steps.h"
#include "weft/train/run/train_options.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

class TracedSteps {
 public:
  /// The arguments must outlive it. Throws InputError for steps beyond the run's end.
  TracedSteps(const Recipe& recipe, const World& world, at::Device device, const TrainOptions& options, int64_t steps);

  /// Before each step, counted from 1; returns whether it is traced: its result is to be taken before end().
  bool begin(int64_t step, Trainer& trainer);
  /// After a step that is. Writes the files after the last one, on rank 0. Collective over the world. `phases`: whether steps
  /// are traced for their phases anyway.
  void end(int64_t step, Trainer& trainer, bool phases);
  /// At the run's end: the profile of the steps there are, if it has not come to the last; on all ranks.
  void finish(Trainer& trainer);

 private:
  bool is_profiled(int64_t step) const;
  void add_step(int64_t step, const Trainer& trainer);
  void write_profile(Trainer& trainer);
  void report(const std::vector<MeasuredStep>& steps) const;

  const Recipe& recipe_;
  const World& world_;
  at::Device device_;
  const TrainOptions& options_;
  int64_t traced_ = 0;                ///< 0: none
  const Program* program_ = nullptr;  ///< of the steps in own_
  std::vector<RankStep> own_;
  size_t kept_operators_ = 0;
  bool is_written_ = false;
};

/// Folder of a profile's files: `profile` in that of the run's records, or in the working folder.
std::string profile_folder(const Recipe& recipe);

}  // namespace weft
