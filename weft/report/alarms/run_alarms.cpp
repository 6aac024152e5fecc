#include "weft/report/alarms/run_alarms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "weft/base/median.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr size_t kNewest = 20;      ///< steps whose mean or median is looked at
constexpr size_t kAtOnce = 5;       ///< steps in which a loss jumps or a norm explodes
constexpr size_t kFirstSteps = 3;   ///< of a run, whose largest loss the next steps are compared with
constexpr size_t kLeastKnown = 50;  ///< steps before those

constexpr double kDiverged = 10.0;  ///< times the least loss
constexpr double kSigmas = 6.0;     ///< above the mean before
constexpr double kWellSigmas = 2.0;
constexpr double kExploded = 10.0;   ///< times the median norm before
constexpr double kStarved = 0.2;     ///< share of a step that waits for samples
constexpr double kSlowed = 0.67;     ///< of the best rate
constexpr int kFastFor = 200;        ///< steps near the best rate before a slow one is told again
constexpr double kWorse = 1.05;      ///< times the best evaluation's loss
constexpr int kInARow = 3;           ///< evaluations
constexpr double kNearChance = 1.2;  ///< times the accuracy of guessing

constexpr const char* kHint = "a lower optimizer.lr, a longer optimizer.warmup or optimizer.clip may help";

constexpr int64_t kMemoryEvery = 100;  ///< steps between looks
constexpr size_t kMemoryLooks = 8;     ///< each higher than the one before
constexpr double kLeaked = 1.1;        ///< times the first of them

template <class Iterator>
double mean_of(const Iterator& first, const Iterator& last) {
  return first == last ? 0.0 : std::accumulate(first, last, 0.0) / static_cast<double>(std::distance(first, last));
}

}  // namespace

const char* alarm_name(AlarmKind kind) {
  switch (kind) {
    case AlarmKind::divergence:
      return "divergence";
    case AlarmKind::gradients:
      return "gradients";
    case AlarmKind::data:
      return "data";
    case AlarmKind::throughput:
      return "throughput";
    case AlarmKind::evaluation:
      return "evaluation";
    case AlarmKind::accuracy:
      return "accuracy";
    case AlarmKind::memory:
      return "memory";
    case AlarmKind::idle:
      return "idle";
  }
  return "";
}

void RunAlarms::Window::add(double value) {
  values_.push_back(value);
  if (values_.size() > most_) values_.pop_front();
}

double RunAlarms::Window::mean(size_t newest) const {
  const auto count = static_cast<std::ptrdiff_t>(newest == 0 ? values_.size() : std::min(newest, values_.size()));
  return mean_of(values_.end() - count, values_.end());
}

double RunAlarms::Window::median(size_t newest) const {
  const auto count = static_cast<std::ptrdiff_t>(newest == 0 ? values_.size() : std::min(newest, values_.size()));
  return weft::median({values_.end() - count, values_.end()});
}

std::pair<double, double> RunAlarms::Window::before(size_t newest) const {
  const auto end = values_.end() - static_cast<std::ptrdiff_t>(std::min(newest, values_.size()));
  const double mean = mean_of(values_.begin(), end);
  double squares = 0.0;
  for (auto value = values_.begin(); value != end; ++value) squares += (*value - mean) * (*value - mean);
  const auto count = static_cast<double>(std::max<std::ptrdiff_t>(1, std::distance(values_.begin(), end)));
  return {mean, std::sqrt(squares / count)};
}

bool RunAlarms::Switch::turns(bool wrong, bool well) {
  if (well) on = false;
  return wrong && !std::exchange(on, true);
}

void RunAlarms::look_at_loss(const SeenStep& step, std::vector<Alarm>& alarms) {
  losses_.add(step.loss);
  if (!first_) first_ = {step.step, step.loss};
  last_ = {step.step, step.loss};
  if (losses_.size() <= kFirstSteps) first_losses_ = std::max(first_losses_, step.loss);
  if (losses_.size() >= kFirstSteps + kAtOnce) {
    const bool is_early = losses_.size() < kNewest;
    const double late = is_early ? losses_.median(kAtOnce) : losses_.mean(kNewest);
    if (!is_early) {
      if (!first_mean_) first_mean_ = late;
      least_mean_ = std::min(late, least_mean_.value_or(late));
    }
    const double least = is_early ? first_losses_ : *least_mean_;
    const bool wrong = least > 0.0 && late >= kDiverged * least && (is_early || late > 0.5 * *first_mean_);
    if (diverges_.turns(wrong, late < 2.0 * least)) {
      least_mean_ = least;  // after an early one, later means are still too high
      alarms.push_back({AlarmKind::divergence,
                        fmt::format("the loss has risen from {:.3g} to {:.3g} ({} over {} steps)", least, late,
                                    is_early ? "median" : "mean", is_early ? kAtOnce : kNewest),
                        kHint});
    }
  }
  if (losses_.size() < kLeastKnown + kAtOnce) return;
  const auto [mean, sigma] = losses_.before(kAtOnce);
  const double now = losses_.median(kAtOnce);
  if (jumps_.turns(now > mean + kSigmas * sigma && now > kWorse * mean, now < mean + kWellSigmas * sigma) && !diverges_.on) {
    alarms.push_back({AlarmKind::divergence,
                      fmt::format("the loss has jumped to {:.3g}, from {:.3g} +- {:.2g} in the steps before", now, mean, sigma),
                      kHint});
  }
}

std::string RunAlarms::rise() const {
  if (!first_ || first_->second <= 0.0 || !(last_.second >= kDiverged * first_->second)) return "";
  return fmt::format("the loss had risen from {:.3g} (step {}) to {:.3g} (step {}): {}", first_->second, first_->first,
                     last_.second, last_.first, kHint);
}

void RunAlarms::look_at_norm(const SeenStep& step, std::vector<Alarm>& alarms) {
  if (step.norm <= 0.0) return;
  norms_.add(step.norm);
  if (norms_.size() < kLeastKnown + kAtOnce) return;
  const double usual = norms_.median(), now = norms_.median(kAtOnce);
  if (explodes_.turns(now > kExploded * usual, now < 2.0 * usual)) {
    alarms.push_back({AlarmKind::gradients,
                      fmt::format("the gradient norm is {:.3g}, {:.0f} times the median of the last {} steps", now, now / usual,
                                  norms_.size()),
                      "optimizer.clip, a lower optimizer.lr, or the samples of these steps"});
  }
}

void RunAlarms::look_at_times(const SeenStep& step, std::vector<Alarm>& alarms) {
  constexpr int64_t kFirst = 3;  // include one-off work
  if (steps_ <= kFirst || step.step_s <= 0.0) return;
  data_shares_.add(step.data_s / step.step_s);
  if (std::exchange(last_samples_, step.samples) != step.samples) {  // another batch has another rate
    rates_ = Window(kNewest);
    best_rate_ = 0.0;
  }
  rates_.add(static_cast<double>(step.samples) / step.step_s);
  if (data_shares_.size() >= kLeastKnown) {
    const double share = data_shares_.mean();
    if (starves_.turns(share > kStarved, share < 0.5 * kStarved)) {
      alarms.push_back({AlarmKind::data, fmt::format("steps wait for samples {:.0f} % of their time", 100.0 * share),
                        "more data.workers, a faster disk, or smaller samples"});
    }
  }
  if (rates_.size() < kNewest) return;
  const double rate = rates_.median();
  best_rate_ = std::max(best_rate_, rate);
  is_fast_for_ = rate > 0.9 * best_rate_ ? is_fast_for_ + 1 : 0;
  if (slows_.turns(rate < kSlowed * best_rate_, is_fast_for_ >= kFastFor)) {
    alarms.push_back({AlarmKind::throughput,
                      fmt::format("{} samples/s, {:.0f} % of the best so far ({} samples/s)", format_count(rate),
                                  100.0 * rate / best_rate_, format_count(best_rate_)),
                      "other programs on these hosts, a slow rank or link (weft reports them), or a device that is too hot"});
  }
}

void RunAlarms::look_at_memory(const SeenStep& step, std::vector<Alarm>& alarms) {
  if (step.memory_bytes <= 0.0 || (!memory_.empty() && step.step - memory_.back().first < kMemoryEvery)) return;
  const double before = memory_.empty() ? 0.0 : memory_.back().second;
  if (step.memory_bytes < before) memory_.clear();
  if (memory_.empty() || step.memory_bytes > before) memory_.emplace_back(step.step, step.memory_bytes);
  if (memory_.size() > kMemoryLooks) memory_.erase(memory_.begin());
  const auto& [first_step, first] = memory_.front();
  const bool grows = memory_.size() == kMemoryLooks && memory_.back().second > kLeaked * first;
  if (leaks_.turns(grows, memory_.size() == 1)) {
    alarms.push_back({AlarmKind::memory,
                      fmt::format("memory has grown from {} to {} over {} steps, and never shrunk",
                                  format_bytes(static_cast<int64_t>(first)),
                                  format_bytes(static_cast<int64_t>(memory_.back().second)), step.step - first_step),
                      "what a block, a dataset or a callback of the program keeps"});
  }
}

std::vector<Alarm> RunAlarms::add(const SeenStep& step) {
  std::vector<Alarm> alarms;
  ++steps_;
  look_at_loss(step, alarms);
  look_at_norm(step, alarms);
  look_at_times(step, alarms);
  look_at_memory(step, alarms);
  return alarms;
}

std::vector<Alarm> RunAlarms::add(const SeenEvaluation& evaluation) {
  std::vector<Alarm> alarms;
  const double best = best_evaluation_.value_or(evaluation.loss);
  worse_ = evaluation.loss > kWorse * best ? worse_ + 1 : 0;
  best_evaluation_ = std::min(best, evaluation.loss);
  if (worsens_.turns(worse_ >= kInARow, evaluation.loss <= best)) {
    alarms.push_back({AlarmKind::evaluation,
                      fmt::format("the evaluation's loss is {:.4g}, above the best ({:.4g}) {} times in a row", evaluation.loss,
                                  best, kInARow),
                      "overfitting: an earlier checkpoint, more data, weight decay or dropout"});
  }
  if (!chance_ || !evaluation.accuracy) return alarms;
  at_chance_ = *evaluation.accuracy <= kNearChance * *chance_ ? at_chance_ + 1 : 0;
  if (guesses_.turns(at_chance_ >= kInARow, at_chance_ == 0)) {
    alarms.push_back(
        {AlarmKind::accuracy,
         fmt::format("the accuracy is {:.1f} % in {} evaluations, as of guessing", 100.0 * *evaluation.accuracy, kInARow),
         "optimizer.lr (too high or too low), frozen parameters, and whether targets belong to their samples"});
  }
  return alarms;
}

}  // namespace weft
