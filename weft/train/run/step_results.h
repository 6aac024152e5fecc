// StepResults: takes a trainer's results, on a device while the next step runs, with the time and the rate of each step.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "weft/base/stopwatch.h"
#include "weft/report/meter.h"
#include "weft/report/report.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// A step whose result has been taken.
struct TakenStep {
  int64_t step = 0;  ///< counted from 0
  StepResult result;
  double rate = 0.0;     ///< learning rate
  double seconds = 0.0;  ///< from its begin, or the result before it if that came later
};

/// What is told of a step of a run of `steps`, with samples of `tokens`, after `samples` of them.
StepReport report_of(const TakenStep& taken, const Meter& meter, int64_t steps, double tokens, double samples);

class StepResults {
 public:
  explicit StepResults(Trainer& trainer) : trainer_(trainer) {}

  void submit(Loader& loader);
  /// Takes the results of `all` steps submitted; otherwise of those that the host can know while the last one runs.
  void take(bool all, const std::function<void(const TakenStep&)>& visit);

 private:
  Trainer& trainer_;
  std::deque<double> rates_;  ///< of the steps that are not settled
  Stopwatch lap_;
};

}  // namespace weft
