// Meter: times steps and tells rates.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace weft {

/// The times of a run's steps.
class Meter {
 public:
  /// For steps that the caller times; the first `skipped` of them (warming up) are left out of the rates.
  explicit Meter(int64_t skipped = 2) : skipped_(skipped) {}

  void add(double step_s, int64_t samples) {
    steps_s_.push_back(step_s);
    samples_.push_back(static_cast<double>(samples));
  }
  /// Samples a second over all but the skipped first steps; over all where there are no others; 0 before any.
  double samples_per_s() const;
  /// Samples a second over the last few steps, for progress.
  double recent_samples_per_s() const;
  /// Steps a second over the same.
  double recent_steps_per_s() const;
  /// The time, in milliseconds, within which a share of the steps that count are done, `share` in [0, 1]: 0.5 is the median. 0
  /// before any.
  double percentile_ms(double share) const;

 private:
  size_t first_counted() const;
  size_t first_recent() const;
  double rate_from(size_t first, bool of_samples) const;

  int64_t skipped_;
  std::vector<double> steps_s_;  ///< by step
  std::vector<double> samples_;  ///< the same
};

/// Seconds since this process was started, as the kernel says.
double process_age_s();

/// Most memory this process has had resident, in MiB.
double peak_rss_mb();

}  // namespace weft
