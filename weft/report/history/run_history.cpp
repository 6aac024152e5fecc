#include "weft/report/history/run_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "weft/base/median.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr size_t kLastSteps = 50;

const EventRecord* newest_start(const RunHistory& run) {
  const auto found =
      std::find_if(run.events.rbegin(), run.events.rend(), [](const EventRecord& event) { return event.kind == "start"; });
  return found == run.events.rend() ? nullptr : &*found;
}

/// Median time between the last records of steps; 0: unknown.
double usual_gap_s(const Metrics& metrics) {
  std::vector<double> gaps;
  const size_t count = metrics.times_s.size();
  for (size_t i = count > kLastSteps ? count - kLastSteps : 1; i < count; ++i) {
    const double gap = metrics.times_s[i] - metrics.times_s[i - 1];
    if (std::isfinite(gap)) gaps.push_back(gap);
  }
  return median(std::move(gaps));
}

}  // namespace

const char* standing_name(RunStanding standing) {
  switch (standing) {
    case RunStanding::empty:
      return "no records";
    case RunStanding::running:
      return "running";
    case RunStanding::silent:
      return "silent";
    case RunStanding::finished:
      return "finished";
    case RunStanding::stopped:
      return "stopped";
    case RunStanding::failed:
      return "failed";
  }
  return "";
}

RunStanding standing_of(const RunHistory& run, double now_s) {
  constexpr double kQuiet_s = 60.0, kGaps = 10.0;
  for (auto event = run.events.rbegin(); event != run.events.rend() && event->kind != "start"; ++event) {
    if (event->kind == "error") return RunStanding::failed;
    if (event->kind != "end") continue;
    const auto how =
        std::find_if(event->details.begin(), event->details.end(), [](const auto& one) { return one.first == "how"; });
    return how != event->details.end() && how->second == "stopped" ? RunStanding::stopped : RunStanding::finished;
  }
  const double newest = newest_s(run);
  if (newest == 0.0) return RunStanding::empty;
  return now_s - newest > std::max(kQuiet_s, kGaps * usual_gap_s(run.metrics())) ? RunStanding::silent : RunStanding::running;
}

double newest_s(const RunHistory& run) {
  double newest = run.events.empty() ? 0.0 : run.events.back().time_s;
  if (!run.metrics().times_s.empty()) newest = std::max(newest, run.metrics().times_s.back());
  if (!run.metrics().evaluations.empty()) newest = std::max(newest, run.metrics().evaluations.back().time_s);
  return newest;
}

std::string start_detail(const RunHistory& run, std::string_view name) {
  const EventRecord* start = newest_start(run);
  return start == nullptr ? "" : detail_of(*start, name);
}

std::vector<std::pair<std::string, std::string>> start_details(const RunHistory& run, std::string_view prefix) {
  std::vector<std::pair<std::string, std::string>> found;
  const EventRecord* start = newest_start(run);
  if (start == nullptr) return found;
  for (const auto& [name, value] : start->details) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), value);
  }
  return found;
}

std::string folder_of(const RunHistory& run) {
  const std::filesystem::path path(run.path);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string name_of(const RunHistory& run) {
  const std::string name = start_detail(run, "name");
  return name.empty() ? folder_of(run) : name;
}

bool shares_name(const RunHistory& run, std::span<const RunHistory* const> runs) {
  const std::string name = name_of(run);
  return std::count_if(runs.begin(), runs.end(), [&](const RunHistory* other) { return name_of(*other) == name; }) > 1;
}

bool names_a_run(std::string_view key) {
  constexpr std::array<std::string_view, 7> kNames = {"run.name",    "run.folder",  "run.resume",           "run.ports",
                                                      "save.folder", "save.upload", "layout.offload_folder"};
  return std::find(kNames.begin(), kNames.end(), key) != kNames.end();
}

std::string damage_text(const Metrics& metrics) {
  std::string text;
  if (metrics.damaged_lines > 0) text += fmt::format(", {} left out", counted(metrics.damaged_lines, "damaged line"));
  if (metrics.has_more_names) text += fmt::format(", values of more than {} names left out", kMostNames);
  return text;
}

int64_t steps_in_all(const RunHistory& run) {
  const std::string text = start_detail(run, "steps");
  int64_t steps = 0;
  std::from_chars(text.data(), text.data() + text.size(), steps);
  return steps;
}

std::optional<double> seconds_left(const RunHistory& run, double now_s) {
  const Metrics& m = run.metrics();
  if (m.steps.size() < 3 || standing_of(run, now_s) != RunStanding::running) return std::nullopt;
  const size_t last = m.steps.size() - 1;
  size_t first = last > kLastSteps ? last - kLastSteps : 1;
  const EventRecord* start = newest_start(run);  // a pause before it is no step's time
  while (start != nullptr && first < last && !(m.times_s[first] >= start->time_s)) ++first;
  const int64_t left = steps_in_all(run) - m.steps[last];
  const double steps = static_cast<double>(m.steps[last] - m.steps[first]);
  if (left < 0 || steps <= 0.0) return std::nullopt;
  return static_cast<double>(left) * (m.times_s[last] - m.times_s[first]) / steps;
}

std::optional<double> last_value(const Metrics& metrics, std::string_view name) {
  const std::vector<double>* column = metrics.column(name);
  if (column == nullptr) return std::nullopt;
  const auto found = std::find_if(column->rbegin(), column->rend(), [](double value) { return std::isfinite(value); });
  return found == column->rend() ? std::nullopt : std::optional(*found);
}

std::optional<double> median_value(const Metrics& metrics, std::string_view name) {
  const std::vector<double>* column = metrics.column(name);
  if (column == nullptr) return std::nullopt;
  std::vector<double> known;
  std::copy_if(column->begin(), column->end(), std::back_inserter(known), [](double value) { return std::isfinite(value); });
  return known.empty() ? std::nullopt : std::optional(median(std::move(known)));
}

std::string failure_of(const RunHistory& run, double now_s) {
  if (standing_of(run, now_s) != RunStanding::failed) return "";
  return std::find_if(run.events.rbegin(), run.events.rend(), [](const auto& event) { return event.kind == "error"; })->text;
}

std::vector<std::pair<int64_t, double>> evaluations_of(const Metrics& metrics, std::string_view set, std::string_view name) {
  std::vector<std::pair<int64_t, double>> points;
  for (const EvaluationRecord& evaluation : metrics.evaluations) {
    if (evaluation.set != set) continue;
    if (const auto value = value_of(evaluation.values, name)) points.emplace_back(evaluation.step, *value);
  }
  return points;
}

}  // namespace weft
