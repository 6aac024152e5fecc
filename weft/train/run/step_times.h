// StepTimes: how the time of a run's steps is spent.
#pragma once

#include <string>
#include <vector>

#include "weft/base/stopwatch.h"
#include "weft/data/loader.h"
#include "weft/train/trainer/trainer.h"
#include "weft/train/watch/stragglers.h"

namespace weft {

/// For one rank's steps, without the first two, which include one-off work.
class StepTimes {
 public:
  /// For a trainer that has started. Keeps references.
  StepTimes(const Trainer& trainer, const Loader& loader, const Mesh& mesh, at::Device device);

  void begin();
  /// Returns lines about slow ranks, the same on all ranks. Collective after every StragglerWatch::kWindow-th step.
  std::vector<std::string> end();

  /// Share of the time in collectives, 0 to 1.
  double communication_share() const { return counted_s_ > 0.0 ? communicated_s_ / counted_s_ : 0.0; }

 private:
  const Trainer& trainer_;
  const Loader& loader_;
  StragglerWatch stragglers_;
  Stopwatch step_;
  double communicated_before_s_ = 0.0, waited_before_s_ = 0.0;
  double counted_s_ = 0.0, communicated_s_ = 0.0;
  int steps_ = 0;
};

}  // namespace weft
