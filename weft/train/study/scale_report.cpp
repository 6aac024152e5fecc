#include "weft/train/study/scale_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/program/draw/line_chart.h"

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
  return result.point.ranks * study.threads > study.cores;
}

std::string scale_row(const ScaleStudy& study, const ScaleResult& result) {
  const ScalePoint& point = result.point;
  const std::string head = fmt::format("  {:<7} {:<12} {:>5}{} {:>7}", kScaleModes.of(point.mode), point.layout, point.ranks,
                                       shares_cores(study, result) ? "*" : " ", point.batch);
  if (!is_measured(result)) return fmt::format("{}  {}\n", head, result.failure.empty() ? "not measured" : result.failure);
  return fmt::format("{} {:>12} {:>10.1f} % {:>10} {:>11.1f} % {:>10}\n", head,
                     format_count(result.tokens_per_s > 0.0 ? result.tokens_per_s : result.samples_per_s),
                     100.0 * efficiency(study, result), format_duration(1e-3 * result.step_ms),
                     100.0 * result.communication_share, fmt::format("{:.0f} MB", result.peak_rss_mb));
}

bool reads_tokens(const ScaleStudy& study) {
  return std::any_of(study.results.begin(), study.results.end(), [](const ScaleResult& r) { return r.tokens_per_s > 0.0; });
}

double number_at(const nlohmann::json& json, const char* key) { return json.at(key).get<double>(); }

}  // namespace

ScaleResult parse_scale_point(const ScalePoint& point, const std::string& text, const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(text);
    const auto memory = json.at("peak_rss_mb").get<std::vector<double>>();
    return {.point = point,
            .samples_per_s = number_at(json, "samples_per_s"),
            .tokens_per_s = number_at(json, "tokens_per_s"),
            .step_ms = number_at(json.at("step_ms"), "p50"),
            .communication_share = number_at(json, "step_communication_share"),
            .peak_rss_mb = memory.empty() ? 0.0 : *std::max_element(memory.begin(), memory.end())};
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: it is no summary of a run", path));
  }
}

double efficiency(const ScaleStudy& study, const ScaleResult& result) {
  const ScaleResult* least = nullptr;
  for (const ScaleResult* other : results_of(study, {result.point.mode, result.point.layout})) {
    if (is_measured(*other) && (least == nullptr || other->point.ranks < least->point.ranks)) least = other;
  }
  if (least == nullptr || !is_measured(result)) return 0.0;
  return result.samples_per_s / least->samples_per_s * least->point.ranks / result.point.ranks;
}

std::string scale_table(const ScaleStudy& study) {
  std::string text =
      fmt::format("  {:<7} {:<12} {:>5}  {:>7} {:>12} {:>12} {:>10} {:>13} {:>10}\n", "scaling", "layout", "ranks", "batch",
                  reads_tokens(study) ? "tokens/s" : "samples/s", "efficiency", "step", "communication", "memory");
  for (const ScaleResult& result : study.results) text += scale_row(study, result);
  text +=
      "efficiency: against the fewest ranks of that layout, in proportion. communication: share of a step, waiting for other\n"
      "ranks included. memory: the most of a rank. strong: the same batch; weak: the same samples a rank.\n";
  const bool any_shares =
      std::any_of(study.results.begin(), study.results.end(), [&](const ScaleResult& r) { return shares_cores(study, r); });
  if (any_shares) {
    text += fmt::format("* more threads than the {} here: these figures tell of sharing cores, not of scaling\n",
                        counted(study.cores, "core"));
  }
  return text;
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

std::string scale_chart(const ScaleStudy& study) {
  LineChart chart{.title = "Throughput against ranks",
                  .subtitle = fmt::format("{}, {} a rank, {}", printable(study.recipe), counted(study.threads, "thread"),
                                          counted(study.cores, "core")),
                  .x_title = "ranks",
                  .y_title = reads_tokens(study) ? "tokens a second" : "samples a second",
                  .open_name = {},
                  .lines = {}};
  int colour = 0;
  for (const ScaleSeries& series : series_of(study)) {
    ChartLine line{.name = fmt::format("{}, {}", series.second, kScaleModes.of(series.first)), .points = {}, .colour = colour};
    for (const ScaleResult* result : results_of(study, series)) {
      if (!is_measured(*result)) continue;
      const double rate = result->tokens_per_s > 0.0 ? result->tokens_per_s : result->samples_per_s;
      line.points.push_back({.x = static_cast<double>(result->point.ranks), .y = rate});
    }
    if (line.points.empty()) continue;
    const ChartPoint first = line.points.front(), last = line.points.back();
    chart.lines.push_back(std::move(line));
    if (last.x > first.x) {
      chart.lines.push_back({.name = colour == 0 ? "in proportion to ranks, each in its colour" : "",
                             .points = {first, {.x = last.x, .y = first.y * last.x / first.x}},
                             .colour = colour,
                             .is_ideal = true});
    }
    ++colour;
  }
  return chart.lines.empty() ? std::string() : draw_line_chart(chart);
}

}  // namespace weft
