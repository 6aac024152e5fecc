#include "weft/train/run/recorded_steps.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "weft/recipe/read/recipe_paths.h"
#include "weft/report/records/record_files.h"

namespace weft {

RecordedRun::RecordedRun(const std::string& folder) : metrics_({"loss", "grad_norm"}) {
  if (folder.empty() || is_url(folder)) return;
  metrics_.add(text_of_records(std::filesystem::path(folder) / kMetricsFile));
  for (EventRecord& event : parse_events(text_of_records(std::filesystem::path(folder) / kEventsFile))) {
    if (event.kind == "start") start_ = std::move(event);
  }
}

int64_t RecordedRun::last_step() const {
  const std::vector<int64_t>& steps = metrics_.metrics().steps;
  return steps.empty() ? 0 : steps.back();
}

RecordedStep RecordedRun::of(int64_t step) const {
  const Metrics& metrics = metrics_.metrics();
  const auto found = std::lower_bound(metrics.steps.begin(), metrics.steps.end(), step);
  if (found == metrics.steps.end() || *found != step) return {};
  const auto at = static_cast<size_t>(found - metrics.steps.begin());
  const auto value = [&](const char* name) -> std::optional<double> {
    const std::vector<double>* column = metrics.column(name);
    if (!column || std::isnan((*column)[at])) return std::nullopt;
    return (*column)[at];
  };
  return {.loss = value("loss"), .norm = value("grad_norm")};
}

}  // namespace weft
