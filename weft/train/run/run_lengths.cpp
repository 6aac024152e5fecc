#include "weft/train/run/run_lengths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/limits.h"

namespace weft {
namespace {

RunMeasure measure_of(const Recipe& recipe, int64_t training_samples) {
  return {

      .epoch_samples = training_samples,
      .step_samples = recipe.batch.global,
      .ramp = recipe.batch.ramp,
      .sample_tokens = tokens_per_sample(recipe.model)};
}

/// Converts to steps, at most one more than a run may have.
int64_t steps_of(const RunLength& length, const RunMeasure& measure) {
  return static_cast<int64_t>(std::min(length.steps(measure), static_cast<double>(kMostCount) + 1.0));
}

}  // namespace

RunLengths run_lengths(const Recipe& recipe, int64_t training_samples) {
  const RunMeasure measure = measure_of(recipe, training_samples);
  const RunLength length = length_of(recipe.run);
  const RunLengths lengths{.steps = steps_of(length, measure),
                           .warmup = steps_of(recipe.optimizer.warmup, measure),
                           .decay_every = steps_of(recipe.optimizer.decay_every, measure),
                           .audit_every = steps_of(recipe.run.audit_every, measure),
                           .histograms_every = steps_of(recipe.run.histograms_every, measure),
                           .evaluate_every = recipe.run.evaluate_every.counted_by(measure),
                           .log_every = recipe.run.log_every.counted_by(measure),
                           .save_every = recipe.save.every.counted_by(measure),
                           .keep_every = recipe.save.keep_every.counted_by(measure),
                           .memory_every = recipe.save.memory_every.counted_by(measure)};
  if (lengths.steps > kMostCount) {
    throw InputError(fmt::format("{}: the run lasts {}, which is more than {} steps of {}; make it shorter", recipe.path,
                                 run_length_text(length), kMostCount, counted(recipe.batch.global, "sample")));
  }
  if (lengths.warmup > 0 && lengths.warmup >= lengths.steps) {
    throw InputError(
        fmt::format("{}: optimizer.warmup = {}, which is {}, does not end within the run's {}; shorten the warm-up "
                    "(optimizer.warmup=0: none)",
                    recipe.path, run_length_text(recipe.optimizer.warmup), counted(lengths.warmup, "step"), lengths.steps));
  }
  if (int64_t ramp = 0; !recipe.batch.ramp.empty()) {
    for (const BatchPhase& phase : recipe.batch.ramp) ramp += phase.steps;
    if (lengths.steps > ramp) return lengths;
    throw InputError(
        fmt::format("{}: the run lasts {}, which is {}, and ends before the {} of batch.ramp have reached "
                    "batch.global",
                    recipe.path, run_length_text(length), counted(lengths.steps, "step"), counted(ramp, "step")));
  }
  return lengths;
}

std::string run_lengths_text(const Recipe& recipe, int64_t training_samples) {
  const RunMeasure measure = measure_of(recipe, training_samples);
  const RunLength length = length_of(recipe.run);
  std::vector<std::string> parts;
  if (length.unit != LengthUnit::steps) {
    parts.push_back(fmt::format("{} of {} samples: {}", run_length_text(length), training_samples,
                                counted(steps_of(length, measure), "step")));
  }
  const std::pair<const char*, const RunLength&> others[] = {{"warm-up", recipe.optimizer.warmup},
                                                             {"between drops of the rate", recipe.optimizer.decay_every},
                                                             {"between evaluations", recipe.run.evaluate_every},
                                                             {"between checkpoints", recipe.save.every}};
  for (const auto& [what, other] : others) {
    const bool repeats = &other != &recipe.optimizer.warmup;  // its steps differ between the phases of a ramp
    if (repeats && !recipe.batch.ramp.empty()) continue;
    if (!other || other.unit == LengthUnit::steps || other.unit == LengthUnit::seconds) continue;
    parts.push_back(fmt::format("{} {}: {}", what, run_length_text(other), counted(steps_of(other, measure), "step")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace weft
