#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "weft/base/median.h"
#include "weft/base/parse_number.h"
#include "weft/report/history/compare_runs.h"
#include "weft/study/read_results.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 5> kAxisKeys = {"pp", "dp", "shard", "cp", "tp"};

/// A difference that follows from the number of ranks.
bool follows_from_ranks(std::string_view key) {
  constexpr std::array<std::string_view, 6> kOther = {"ranks",       "steps",       "batch.global",
                                                      "batch.micro", "run.threads", "run.steps"};
  if (std::find(kOther.begin(), kOther.end(), key) != kOther.end()) return true;
  const auto is_axis = [&](std::string_view axis) { return key == fmt::format("layout.{}", axis); };
  return std::any_of(kAxisKeys.begin(), kAxisKeys.end(), is_axis) || key == "layout.batch" || key == "layout.micro_batch";
}

int64_t whole_detail(const RunHistory& run, const std::string& name) {
  return parse_number<int64_t>(start_detail(run, name)).value_or(0);
}

double step_seconds(const RunHistory& run, const std::string& name) {
  const std::vector<double>* column = run.metrics().column(name);
  if (column == nullptr) return 0.0;
  constexpr size_t kWarming = 2;  // first steps, which are slower
  std::vector<double> values;
  for (size_t i = column->size() > 2 * kWarming ? kWarming : 0; i < column->size(); ++i) {
    if (std::isfinite((*column)[i])) values.push_back((*column)[i]);
  }
  return median(std::move(values));
}

/// "dp", "pp+dp": the axes that divide anything; empty on one rank.
std::string axes_text(const RunHistory& run) {
  std::string text;
  for (const std::string_view axis : kAxisKeys) {
    if (whole_detail(run, fmt::format("layout.{}", axis)) > 1) text += fmt::format("{}{}", text.empty() ? "" : "+", axis);
  }
  return text;
}

ScaleResult scale_result_of_run(const RunHistory& run) {
  const double step_s = step_seconds(run, "time/step"), samples = last_value(run.metrics(), "samples").value_or(0.0);
  ScaleResult result;
  result.point = {.layout = axes_text(run),
                  .ranks = static_cast<int>(whole_detail(run, "ranks")),
                  .batch = whole_detail(run, "recipe.batch.global")};
  if (step_s <= 0.0) {
    result.failure = "no steps";
    return result;
  }
  result.samples_per_s = static_cast<double>(result.point.batch) / step_s;
  if (samples > 0.0) result.tokens_per_s = result.samples_per_s * last_value(run.metrics(), "tokens").value_or(0.0) / samples;
  result.step_ms = result.least_step_ms = result.most_step_ms = 1e3 * step_s;
  for (const MetricColumn& column : run.metrics().columns) {
    if (column.name.starts_with("communication/")) result.communication_share += step_seconds(run, column.name) / step_s;
  }
  result.peak_rss_mb = last_value(run.metrics(), "memory/resident").value_or(0.0) / 1e6;
  return result;
}

/// Strong: all have one batch; weak: it grows with the ranks; empty: neither.
std::optional<ScaleMode> mode_of_runs(const std::vector<ScaleResult>& results) {
  const ScalePoint& first = results.front().point;
  const auto all = [&](const auto& is_so) { return std::all_of(results.begin(), results.end(), is_so); };
  if (all([&](const ScaleResult& r) { return r.point.batch == first.batch; })) return ScaleMode::strong;
  if (all([&](const ScaleResult& r) { return r.point.batch * first.ranks == first.batch * r.point.ranks; }))
    return ScaleMode::weak;
  return std::nullopt;
}

/// One result for each layout and number of ranks; one rank is the first point of every layout.
std::vector<ScaleResult> by_point(const std::vector<ScaleResult>& results) {
  std::map<std::pair<std::string, int>, std::vector<ScaleResult>> points;
  for (const ScaleResult& result : results) {
    if (result.failure.empty()) points[{result.point.layout, result.point.ranks}].push_back(result);
  }
  std::vector<ScaleResult> middles;
  std::string layout;
  for (const auto& [point, same] : points) {
    if (point.first.empty()) continue;
    if (layout != point.first && points.count({"", 1}) > 0) {
      middles.push_back(median_of_runs(points.at({"", 1})));
      middles.back().point.layout = point.first;
    }
    layout = point.first;
    middles.push_back(median_of_runs(same));
  }
  return middles;
}

}  // namespace

std::optional<ScaleStudy> scaling_of(const std::vector<const RunHistory*>& runs) {
  std::vector<ScaleResult> results;
  results.reserve(runs.size());
  for (const RunHistory* run : runs) {
    if (!start_detail(*run, "recipe.batch.ramp.1.global").empty()) return std::nullopt;  // its steps are not of one batch
    results.push_back(scale_result_of_run(*run));
  }
  const auto has_other_ranks = [&](const ScaleResult& r) { return r.point.ranks != results.front().point.ranks; };
  if (std::none_of(results.begin(), results.end(), has_other_ranks)) return std::nullopt;
  const std::vector<Difference> different = differences(grouped_by_seed(runs));
  if (!std::all_of(different.begin(), different.end(), [](const Difference& one) { return follows_from_ranks(one.key); }))
    return std::nullopt;
  const std::optional<ScaleMode> mode = mode_of_runs(results);
  if (!mode) return std::nullopt;
  ScaleStudy study{.recipe = start_detail(*runs.front(), "recipe"), .cores = 0, .threads = 0, .results = by_point(results)};
  for (ScaleResult& result : study.results) result.point.mode = *mode;
  return study;
}

}  // namespace weft
