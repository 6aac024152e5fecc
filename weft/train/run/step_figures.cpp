#include "weft/train/run/step_figures.h"

namespace weft {

void StepFigures::add(const TakenStep& taken, int64_t batch, int64_t micro_batch) {
  const StepResult& result = taken.result;
  trend.add(result.loss);
  meter.add(taken.seconds, batch);
  if (result.skipped || result.small_squares == 0.0) return;
  noise.add(result.small_squares, micro_batch, result.norm * result.norm, batch);
}

}  // namespace weft
