#include "weft/report/meter.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "weft/base/process.h"

namespace weft {

size_t Meter::first_counted() const {
  return steps_s_.size() > static_cast<size_t>(skipped_) ? static_cast<size_t>(skipped_) : 0;
}

size_t Meter::first_recent() const {
  constexpr size_t kRecent = 20;
  return steps_s_.size() - std::min(kRecent, steps_s_.size());
}

/// Samples, or steps, per second from step `first` on.
double Meter::rate_from(size_t first, bool of_samples) const {
  const auto from = static_cast<std::ptrdiff_t>(first);
  const double seconds = std::accumulate(steps_s_.begin() + from, steps_s_.end(), 0.0);
  const double done =
      of_samples ? std::accumulate(samples_.begin() + from, samples_.end(), 0.0) : static_cast<double>(steps_s_.size() - first);
  return seconds > 0.0 ? done / seconds : 0.0;
}

double Meter::samples_per_s() const { return rate_from(first_counted(), /*of_samples=*/true); }
double Meter::recent_samples_per_s() const { return rate_from(first_recent(), /*of_samples=*/true); }
double Meter::recent_steps_per_s() const { return rate_from(first_recent(), /*of_samples=*/false); }

double Meter::percentile_ms(double share) const {
  std::vector<double> steps(steps_s_.begin() + static_cast<std::ptrdiff_t>(first_counted()), steps_s_.end());
  if (steps.empty()) return 0.0;
  const auto index = static_cast<std::ptrdiff_t>(std::lround(share * static_cast<double>(steps.size() - 1)));
  std::nth_element(steps.begin(), steps.begin() + index, steps.end());
  return steps[static_cast<size_t>(index)] * 1e3;
}

double process_age_s() {
  const double started_s = static_cast<double>(process_start(getpid())) / static_cast<double>(sysconf(_SC_CLK_TCK));
  double up_s = 0.0;
  std::ifstream("/proc/uptime") >> up_s;
  return up_s - started_s;
}

double rss_mb() {
  int64_t all_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> resident_pages;
  return static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace weft
