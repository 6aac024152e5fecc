#include "weft/train/run/step_times.h"

#include <algorithm>

#include "weft/train/run/final_report.h"

namespace weft {

StepTimes::StepTimes(const Trainer& trainer, const Loader& loader, const Mesh& mesh, at::Device device)
    : trainer_(trainer), loader_(loader), stragglers_(mesh, trainer.world_group(), device) {}

void StepTimes::begin() {
  communicated_before_s_ = communication_seconds(trainer_);
  waited_before_s_ = loader_.waits().waited_s;
  step_ = Stopwatch();
}

std::vector<std::string> StepTimes::end() {
  const double step_s = step_.seconds();
  if (++steps_ <= 2) return {};
  const double communicated_s = communication_seconds(trainer_) - communicated_before_s_;
  counted_s_ += step_s;
  communicated_s_ += communicated_s;
  const double waited_s = loader_.waits().waited_s - waited_before_s_;
  return stragglers_.add({.data_s = waited_s, .compute_s = std::max(0.0, step_s - communicated_s - waited_s)}, communicated_s);
}

}  // namespace weft
