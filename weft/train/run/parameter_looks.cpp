#include "weft/train/run/parameter_looks.h"

#include <utility>

#include "weft/train/trainer/parameter_histograms.h"

namespace weft {

void ParameterLooks::after_step(Trainer& trainer, int64_t histograms_every, RunRecords& records) {
  records.take(gradients_.after_step(trainer));
  if (histograms_every == 0 || trainer.steps_done() % histograms_every != 0) return;
  const double now = unix_time_s();
  parameter_histograms(trainer, [&](const std::string& name, ValueHistogram values) {
    records.add(HistogramRecord{.name = name, .step = trainer.steps_done(), .time_s = now, .values = std::move(values)});
  });
}

}  // namespace weft
