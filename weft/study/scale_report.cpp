#include "weft/study/scale_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/median.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/report/charts/line_chart.h"

namespace weft {
namespace {

using ScaleJson = nlohmann::ordered_json;
using ScaleSeries = std::pair<ScaleMode, std::string>;  // mode and layout

bool is_measured(const ScaleResult& result) { return result.failure.empty() && result.samples_per_s > 0.0; }

std::vector<ScaleSeries> series_of(const ScaleStudy& study) {
  std::vector<ScaleSeries> all;
  for (const ScaleResult& result : study.results) {
    const ScaleSeries one{result.point.mode, result.point.layout};
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
  return all;
}

std::vector<const ScaleResult*> results_of(const ScaleStudy& study, const ScaleSeries& series) {
  std::vector<const ScaleResult*> results;
  for (const ScaleResult& result : study.results) {
    if (result.point.mode == series.first && result.point.layout == series.second) results.push_back(&result);
  }
  return results;
}

bool shares_cores(const ScaleStudy& study, const ScaleResult& result) {
  return study.cores > 0 && result.point.ranks * study.threads > study.cores;
}

double shown_rate(const ScaleResult& result) { return result.tokens_per_s > 0.0 ? result.tokens_per_s : result.samples_per_s; }

std::vector<std::string> scale_cells_of(const ScaleStudy& study, const ScaleResult& result) {
  const ScalePoint& point = result.point;
  std::vector<std::string> cells = {std::string(kScaleModes.of(point.mode)), point.layout,
                                    fmt::format("{}{}", point.ranks, shares_cores(study, result) ? "*" : ""),
                                    fmt::to_string(point.batch)};
  if (!is_measured(result)) {
    cells.push_back(result.failure.empty() ? "not measured" : result.failure);
    return cells;
  }
  cells.insert(cells.end(),
               {format_count(shown_rate(result)), fmt::format("{:.1f} %", 100.0 * efficiency(study, result)),
                format_duration(1e-3 * result.step_ms), result.runs > 1 ? fmt::format("{:.0f} %", 100.0 * spread(result)) : "-",
                fmt::format("{:.0f} %", 100.0 * result.communication_share), fmt::format("{:.0f} MB", result.peak_rss_mb)});
  return cells;
}

std::string scale_row(const ScaleStudy& study, const ScaleResult& result) {
  const std::vector<std::string> cells = scale_cells_of(study, result);
  const std::string mark = cells[2].ends_with('*') ? "" : " ";
  const std::string head =
      fmt::format("{:<6} {:<6} {:>{}}{} {:>6}", cells[0], cells[1], cells[2], mark.empty() ? 6 : 5, mark, cells[3]);
  if (!is_measured(result)) return fmt::format("{}  {}\n", head, cells[4]);
  return fmt::format("{} {:>9} {:>10} {:>8} {:>6} {:>6} {:>8}\n", head, cells[4], cells[5], cells[6], cells[7], cells[8],
                     cells[9]);
}

bool reads_tokens(const ScaleStudy& study) {
  return std::any_of(study.results.begin(), study.results.end(), [](const ScaleResult& r) { return r.tokens_per_s > 0.0; });
}

/// The result with the fewest ranks in the same mode and layout; null if none was measured.
const ScaleResult* fewest_ranks(const ScaleStudy& study, const ScaleResult& result) {
  const ScaleResult* least = nullptr;
  for (const ScaleResult* other : results_of(study, {result.point.mode, result.point.layout})) {
    if (is_measured(*other) && (least == nullptr || other->point.ranks < least->point.ranks)) least = other;
  }
  return least;
}

/// Samples per second of the slowest and the fastest run.
std::pair<double, double> rates_of_runs(const ScaleResult& result) {
  return {result.samples_per_s * result.step_ms / result.most_step_ms,
          result.samples_per_s * result.step_ms / result.least_step_ms};
}

/// Describes a spread that is too wide for conclusions; otherwise empty.
std::string noise_text(const ScaleStudy& study, const ScaleResult& result) {
  constexpr double kWide = 0.2;
  if (!is_measured(result) || result.runs < 2) return "";
  const std::string apart = fmt::format("  {} {}, {}: by {:.0f} %", kScaleModes.of(result.point.mode), result.point.layout,
                                        counted(result.point.ranks, "rank"), 100.0 * spread(result));
  const ScaleResult* least = fewest_ranks(study, result);
  if (least != nullptr && least->point.ranks < result.point.ranks) {
    const auto [slowest, quickest] = rates_of_runs(result);
    const auto [slowest_before, quickest_before] = rates_of_runs(*least);
    if (slowest <= quickest_before && slowest_before <= quickest) {
      return fmt::format("{}, which hides whether it is faster than {}\n", apart, counted(least->point.ranks, "rank"));
    }
  }
  return spread(result) > kWide ? apart + "\n" : "";
}

double number_at(const nlohmann::json& json, const char* key) { return json.at(key).get<double>(); }

}  // namespace

ScaleResult parse_scale_point(const ScalePoint& point, const std::string& text, const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(text);
    const auto memory = json.at("peak_rss_mb").get<std::vector<double>>();
    const double step_ms = number_at(json.at("step_ms"), "p50"), samples = number_at(json, "samples_per_s");
    const double samples_per_s = step_ms > 0.0 ? static_cast<double>(point.batch) / (1e-3 * step_ms) : 0.0;
    const double tokens_a_sample = samples > 0.0 ? number_at(json, "tokens_per_s") / samples : 0.0;
    return {.point = point,
            .samples_per_s = samples_per_s,
            .tokens_per_s = samples_per_s * tokens_a_sample,
            .step_ms = step_ms,
            .least_step_ms = step_ms,
            .most_step_ms = step_ms,
            .communication_share = number_at(json, "step_communication_share"),
            .peak_rss_mb = memory.empty() ? 0.0 : *std::max_element(memory.begin(), memory.end())};
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: not a run's summary", path));
  }
}

ScaleResult median_of_runs(const std::vector<ScaleResult>& runs) {
  std::vector<double> steps, shares, memory;
  for (const ScaleResult& run : runs) {
    if (!run.failure.empty()) return run;
    steps.push_back(run.step_ms);
    shares.push_back(run.communication_share);
    memory.push_back(run.peak_rss_mb);
  }
  ScaleResult result = runs.front();
  const auto [least, most] = std::minmax_element(steps.begin(), steps.end());
  result.least_step_ms = *least;
  result.most_step_ms = *most;
  result.step_ms = median(steps);
  const double slower = runs.front().step_ms > 0.0 ? result.step_ms / runs.front().step_ms : 1.0;
  result.samples_per_s /= slower;
  result.tokens_per_s /= slower;
  result.communication_share = median(shares);
  result.peak_rss_mb = median(memory);
  result.runs = static_cast<int>(runs.size());
  return result;
}

double spread(const ScaleResult& result) {
  return result.step_ms > 0.0 ? (result.most_step_ms - result.least_step_ms) / result.step_ms : 0.0;
}

double efficiency(const ScaleStudy& study, const ScaleResult& result) {
  const ScaleResult* least = fewest_ranks(study, result);
  if (least == nullptr || !is_measured(result)) return 0.0;
  return result.samples_per_s / least->samples_per_s * least->point.ranks / result.point.ranks;
}

std::string scale_table(const ScaleStudy& study) {
  std::string text =
      fmt::format("{:<6} {:<6} {:>5}  {:>6} {:>9} {:>10} {:>8} {:>6} {:>6} {:>8}\n", "", "layout", "ranks", "batch",
                  reads_tokens(study) ? "tokens/s" : "samples/s", "efficiency", "step", "spread", "comm.", "memory");
  for (const ScaleResult& result : study.results) text += scale_row(study, result);
  text +=
      "strong: the same batch; weak: the same samples per rank. efficiency: relative to\n"
      "ideal scaling from the layout's fewest ranks. step: the median of the runs'\n"
      "medians; spread: between fastest and slowest run. comm.: share of a step in\n"
      "collectives, waiting for other ranks included. memory: the largest of all ranks.\n";
  std::string noise;
  for (const ScaleResult& result : study.results) noise += noise_text(study, result);
  if (!noise.empty()) {
    text += "warning: these points' runs vary widely; a quieter machine, more --repeats or\nmore --steps would help\n" + noise;
  }
  const bool any_shares =
      std::any_of(study.results.begin(), study.results.end(), [&](const ScaleResult& r) { return shares_cores(study, r); });
  if (any_shares) {
    text +=
        fmt::format("* more threads than the {} here: they measure shared cores, not scaling\n", counted(study.cores, "core"));
  }
  return text;
}

std::vector<std::vector<std::string>> scale_cells(const ScaleStudy& study) {
  std::vector<std::vector<std::string>> rows = {{"scaling", "layout", "ranks", "batch",
                                                 reads_tokens(study) ? "tokens/s" : "samples/s", "efficiency", "step", "spread",
                                                 "communication", "memory"}};
  for (const ScaleResult& result : study.results) rows.push_back(scale_cells_of(study, result));
  return rows;
}

std::string scale_json(const ScaleStudy& study) {
  ScaleJson rows = ScaleJson::array();
  for (const ScaleResult& result : study.results) {
    ScaleJson row = {{"scaling", kScaleModes.of(result.point.mode)},
                     {"layout", result.point.layout},
                     {"ranks", result.point.ranks},
                     {"batch", result.point.batch},
                     {"shares_cores", shares_cores(study, result)}};
    if (is_measured(result)) {
      row.update({{"samples_per_s", result.samples_per_s},
                  {"tokens_per_s", result.tokens_per_s},
                  {"efficiency", efficiency(study, result)},
                  {"step_ms", result.step_ms},
                  {"least_step_ms", result.least_step_ms},
                  {"most_step_ms", result.most_step_ms},
                  {"runs", result.runs},
                  {"communication_share", result.communication_share},
                  {"peak_rss_mb", result.peak_rss_mb}});
    }
    row["failure"] = is_measured(result) ? ScaleJson(nullptr) : ScaleJson(result.failure);
    rows.push_back(std::move(row));
  }
  return ScaleJson{
             {"recipe", printable(study.recipe)}, {"cores", study.cores}, {"threads_per_rank", study.threads}, {"rows", rows}}
             .dump(2) +
         "\n";
}

namespace {

/// Lines over ranks: of each mode and layout, and how it would be at best, from its first point on.
using PointOf = std::function<ChartPoint(const ScaleResult&)>;
using IdealOf = std::function<double(const ChartPoint& first, double ranks)>;

std::vector<ChartLine> lines_over_ranks(const ScaleStudy& study, const PointOf& point_of, const IdealOf& ideal_of) {
  std::vector<ChartLine> lines;
  std::vector<std::string> layouts;
  bool is_explained = false;
  for (const ScaleSeries& series : series_of(study)) {
    const auto found = std::find(layouts.begin(), layouts.end(), series.second);
    const int colour = static_cast<int>(found - layouts.begin());
    if (found == layouts.end()) layouts.push_back(series.second);
    ChartLine line{.name = fmt::format("{}, {}", series.second, kScaleModes.of(series.first)),
                   .points = {},
                   .colour = colour,
                   .mark = static_cast<int>(series.first)};
    for (const ScaleResult* result : results_of(study, series)) {
      if (is_measured(*result)) line.points.push_back(point_of(*result));
    }
    if (line.points.empty()) continue;
    const ChartPoint first = line.points.front(), last = line.points.back();
    lines.push_back(std::move(line));
    if (last.x <= first.x) continue;
    lines.push_back({.name = std::exchange(is_explained, true) ? "" : "ideal scaling, in the same colour",
                     .points = {first, {.x = last.x, .y = ideal_of(first, last.x)}},
                     .colour = colour,
                     .is_ideal = true});
  }
  return lines;
}

std::string machine_text(const ScaleStudy& study) {
  std::string text = printable(study.recipe);
  if (study.threads > 0) text += fmt::format(", {} per rank", counted(study.threads, "thread"));
  if (study.cores > 0) text += fmt::format(", {}", counted(study.cores, "core"));
  return text;
}

std::string chart_of(const ScaleStudy& study, const char* title, const char* y_title, std::vector<ChartLine> lines) {
  if (lines.empty()) return {};
  return draw_line_chart({.title = title,
                          .subtitle = machine_text(study),
                          .x_title = "ranks",
                          .y_title = y_title,
                          .open_name = {},
                          .lines = std::move(lines)});
}

}  // namespace

std::string scale_chart(const ScaleStudy& study) {
  const auto point_of = [](const ScaleResult& result) {
    const double rate = shown_rate(result);
    return ChartPoint{.x = static_cast<double>(result.point.ranks),
                      .y = rate,
                      .least_y = rate * result.step_ms / result.most_step_ms,
                      .most_y = rate * result.step_ms / result.least_step_ms};
  };
  const auto ideal_of = [](const ChartPoint& first, double ranks) { return first.y * ranks / first.x; };
  return chart_of(study, "Throughput vs ranks", reads_tokens(study) ? "tokens per second" : "samples per second",
                  lines_over_ranks(study, point_of, ideal_of));
}

std::string efficiency_chart(const ScaleStudy& study) {
  const auto point_of = [&](const ScaleResult& result) {
    return ChartPoint{.x = static_cast<double>(result.point.ranks), .y = 100.0 * efficiency(study, result)};
  };
  const auto ideal_of = [](const ChartPoint& first, double) { return first.y; };
  return chart_of(study, "Efficiency vs ranks", "% of ideal scaling from the fewest ranks",
                  lines_over_ranks(study, point_of, ideal_of));
}

}  // namespace weft
