// StepTimes: how the time of a run's steps is spent.
#pragma once

#include <optional>
#include <string>
#include <utility>
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

  /// The last step on this rank.
  struct Parts {
    double data_s = 0.0;                                               ///< waiting for samples
    std::vector<std::pair<std::string, double>> communication_s = {};  ///< in calls and waits, by axis
  };
  const Parts& last() const { return last_; }
  /// The slowest rank of the last comparison, see StragglerWatch::slowest().
  const std::optional<Straggler>& slowest() const { return stragglers_.slowest(); }

  /// Share of the time in collectives, 0 to 1.
  double communication_share() const { return counted_s_ > 0.0 ? communicated_s_ / counted_s_ : 0.0; }

 private:
  const Trainer& trainer_;
  const Loader& loader_;
  StragglerWatch stragglers_;
  Stopwatch step_;
  Parts last_, before_;  ///< before the step: since the start
  double counted_s_ = 0.0, communicated_s_ = 0.0;
  int steps_ = 0;
};

}  // namespace weft
