// Meter: times steps and computes rates.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace weft {

/// The times of a run's steps.
class Meter {
 public:
  /// The caller times the steps; rates exclude the first `skipped` steps (warm-up).
  explicit Meter(int64_t skipped = 2) : skipped_(skipped) {}

  void add(double step_s, int64_t samples) {
    steps_s_.push_back(step_s);
    samples_.push_back(static_cast<double>(samples));
  }
  /// Samples per second, without the skipped steps unless there are no others; 0 before any step.
  double samples_per_s() const;
  /// Samples per second over the last few steps, for progress.
  double recent_samples_per_s() const;
  /// Steps per second over the last few steps.
  double recent_steps_per_s() const;
  /// Percentile of step time in milliseconds, without the skipped steps; `share` in [0, 1]: 0.5 is the median. 0 before any
  /// step.
  double percentile_ms(double share) const;

 private:
  size_t first_counted() const;
  size_t first_recent() const;
  double rate_from(size_t first, bool of_samples) const;

  int64_t skipped_;
  std::vector<double> steps_s_;  ///< by step
  std::vector<double> samples_;  ///< by step
};

/// Seconds since this process started, from the kernel.
double process_age_s();

/// Resident memory of this process now, in MiB.
double rss_mb();
/// Its peak, in MiB.
double peak_rss_mb();

}  // namespace weft
