#include "weft/train/run/step_results.h"

namespace weft {

StepReport report_of(const TakenStep& taken, const Meter& meter, int64_t steps, double tokens, double samples) {
  const double rate = meter.recent_steps_per_s(), samples_per_s = meter.recent_samples_per_s();
  return {.step = taken.step + 1,
          .steps = steps,
          .loss = taken.result.loss,
          .norm = taken.result.norm,
          .lr = taken.rate,
          .samples_per_s = samples_per_s,
          .tokens_per_s = samples_per_s * tokens,
          .seconds_left = rate > 0 ? static_cast<double>(steps - taken.step - 1) / rate : -1.0,
          .samples = samples,
          .tokens = samples * tokens};
}

void StepResults::submit(Loader& loader) {
  if (trainer_.unsettled() == 0) lap_ = Stopwatch();
  rates_.push_back(trainer_.learning_rate());
  trainer_.submit(loader);
}

void StepResults::take(bool all, const std::function<void(const TakenStep&)>& visit) {
  while (trainer_.unsettled() > (!all && trainer_.reads_late() ? 1 : 0)) {
    TakenStep taken{.step = trainer_.steps_done() - trainer_.unsettled(), .result = trainer_.settle(), .rate = rates_.front()};
    taken.seconds = lap_.seconds();
    lap_ = Stopwatch();
    rates_.pop_front();
    visit(taken);
  }
}

}  // namespace weft
