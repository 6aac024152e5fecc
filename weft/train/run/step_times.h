// StepTimes: where the time of a run's steps goes.
#pragma once

#include <string>
#include <vector>

#include "weft/base/stopwatch.h"
#include "weft/data/loader.h"
#include "weft/train/trainer/trainer.h"
#include "weft/train/watch/stragglers.h"

namespace weft {

/// Of one rank's steps, the first two left out, in which much is done for the first time.
class StepTimes {
 public:
  /// Of a trainer that has started. Keeps references.
  StepTimes(const Trainer& trainer, const Loader& loader, const Mesh& mesh, at::Device device);

  void begin();
  /// Collective at times (StragglerWatch): lines about ranks that are behind, the same on all ranks.
  std::vector<std::string> end();

  double step_s() const { return step_s_; }  ///< of the last step
  /// The share that was spent in collectives, 0 to 1.
  double communication_share() const { return counted_s_ > 0.0 ? communicated_s_ / counted_s_ : 0.0; }

 private:
  const Trainer& trainer_;
  const Loader& loader_;
  StragglerWatch stragglers_;
  Stopwatch step_;
  double step_s_ = 0.0, communicated_before_s_ = 0.0, waited_before_s_ = 0.0;
  double counted_s_ = 0.0, communicated_s_ = 0.0;
  int steps_ = 0;
};

}  // namespace weft
