#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/recipe/limits.h"
#include "weft/report/charts/line_chart.h"
#include "weft/study/plan_curve.h"

namespace weft {

namespace {

constexpr double kDay = 86400.0;

/// The points of each hardware.
std::vector<std::vector<const PlanPoint*>> lines_of(const PlanCurves& curves) {
  std::map<size_t, std::vector<const PlanPoint*>> by_line;
  for (const PlanPoint& point : curves.points) by_line[point.line].push_back(&point);
  std::vector<std::vector<const PlanPoint*>> lines;
  lines.reserve(by_line.size());
  for (auto& [index, points] : by_line) lines.push_back(std::move(points));
  return lines;
}

/// Name of the hardware of `point`, with its file if another one has the same name.
std::string hardware_text(const PlanCurves& curves, const PlanPoint& point) {
  const bool is_shared = std::any_of(curves.points.begin(), curves.points.end(), [&](const PlanPoint& other) {
    return other.line != point.line && other.hardware == point.hardware;
  });
  return printable(is_shared ? fmt::format("{} ({})", point.hardware, point.path) : point.hardware);
}

bool counts_tokens(const PlanCurves& curves) {
  return std::any_of(curves.points.begin(), curves.points.end(),
                     [](const PlanPoint& point) { return point.best && point.best->tokens_per_s > 0.0; });
}

double rate_of(const LayoutForecast& best) { return best.tokens_per_s > 0.0 ? best.tokens_per_s : best.samples_per_s; }

/// "at most 96 layers, 5.03 G parameters".
std::string largest_text(const LargestModel& largest) {
  if (largest.layers == 0) return "          no number of layers fits\n";
  const std::string parameters = format_count(static_cast<double>(largest.parameters));
  if (largest.layers == kMostLayers) {
    return fmt::format("          {} layers, {} parameters, or more: model.layers has no larger value\n", kMostLayers,
                       parameters);
  }
  return fmt::format("          at most about {}, {} parameters\n", counted(largest.layers, "layer"), parameters);
}

std::string curve_row(const PlanCurves& curves, const PlanPoint& point) {
  const std::string largest = point.largest ? largest_text(*point.largest) : "";
  if (!point.best) return fmt::format("  {:>6}  {}\n", point.ranks, point.reason) + largest;
  const LayoutForecast& best = *point.best;
  std::string row = fmt::format("  {:>6}  {:>9}  {:>9}  {:>6.1f} %  {:>9}", point.ranks, format_duration(best.step_s),
                                format_count(rate_of(best)), 100.0 * best.mfu, format_bytes(best.memory_bytes));
  if (curves.budget.tokens > 0.0) row += fmt::format("  {:>9}", format_count(training_seconds(point, curves.budget) / kDay));
  if (point.price > 0.0) row += fmt::format("  {:>9}", format_count(training_cost(point, curves.budget)));
  return row + "\n          " + best.text + "\n" + largest;
}

/// "fits from 16 ranks on".
std::string smallest_text(const std::vector<const PlanPoint*>& points) {
  const auto first = std::find_if(points.begin(), points.end(), [](const PlanPoint* point) { return point->best.has_value(); });
  if (first == points.end())
    return fmt::format("  fits none of these numbers, up to {}\n", counted(points.back()->ranks, "rank"));
  if (first == points.begin()) return "";
  return fmt::format("  the smallest of these numbers that fits: {}\n", counted((*first)->ranks, "rank"));
}

nlohmann::ordered_json point_json(const PlanPoint& point, const PlanBudget& budget) {
  nlohmann::ordered_json json = {
      {"hardware", printable(point.hardware)}, {"file", printable(point.path)}, {"ranks", point.ranks}};
  if (point.largest) json["largest"] = {{"layers", point.largest->layers}, {"parameters", point.largest->parameters}};
  if (!point.best) {
    json["reason"] = point.reason;
    return json;
  }
  const LayoutForecast& best = *point.best;
  json.update({{"layout", best.text},
               {"step_s", best.step_s},
               {"samples_per_s", best.samples_per_s},
               {"tokens_per_s", best.tokens_per_s},
               {"mfu", best.mfu},
               {"memory_bytes", best.memory_bytes}});
  if (budget.tokens > 0.0) json["training_s"] = training_seconds(point, budget);
  if (point.price > 0.0) json.update({{"price_per_hour", point.price}, {"cost", training_cost(point, budget)}});
  return json;
}

}  // namespace

std::string plan_curves_table(const PlanCurves& curves) {
  const std::string days = curves.budget.tokens > 0.0 ? fmt::format("  {:>9}", "days") : "";
  const std::string cost = !curves.budget.prices.empty() ? fmt::format("  {:>9}", "cost") : "";
  std::string text;
  for (const std::vector<const PlanPoint*>& points : lines_of(curves)) {
    text += fmt::format("{}{}\n  {:>6}  {:>9}  {:>9}  {:>8}  {:>9}{}{}\n", text.empty() ? "" : "\n",
                        hardware_text(curves, *points.front()), "ranks", "step",
                        counts_tokens(curves) ? "tokens/s" : "samples/s", "MFU", "memory", days, cost);
    for (const PlanPoint* point : points) text += curve_row(curves, *point);
    text += smallest_text(points);
  }
  return text;
}

std::string plan_curves_json(const PlanCurves& curves) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const PlanPoint& point : curves.points) points.push_back(point_json(point, curves.budget));
  nlohmann::ordered_json json = {{"recipe", printable(curves.recipe)}, {"batch", curves.batch}};
  if (curves.budget.tokens > 0.0) json["tokens"] = curves.budget.tokens;
  json["points"] = points;
  return json.dump(2) + "\n";
}

std::string plan_curves_chart(const PlanCurves& curves) {
  const bool is_budget = curves.budget.tokens > 0.0;
  LineChart chart{.title = is_budget ? "Days of training vs ranks" : "Step time vs ranks",
                  .subtitle = fmt::format("{}, {} per step{}, the fastest layout of each", printable(curves.recipe),
                                          counted(curves.batch, "sample"),
                                          is_budget ? fmt::format(", {} tokens", format_count(curves.budget.tokens)) : ""),
                  .x_title = "ranks",
                  .y_title = is_budget ? "days" : "seconds per step"};
  for (const std::vector<const PlanPoint*>& points : lines_of(curves)) {
    ChartLine line{.name = hardware_text(curves, *points.front()), .colour = static_cast<int>(chart.lines.size())};
    for (const PlanPoint* point : points) {
      if (!point->best) continue;
      const double y = is_budget ? training_seconds(*point, curves.budget) / kDay : point->best->step_s;
      line.points.push_back({.x = static_cast<double>(point->ranks), .y = y});
    }
    if (!line.points.empty()) chart.lines.push_back(std::move(line));
  }
  return chart.lines.empty() ? std::string() : draw_line_chart(chart);
}

}  // namespace weft
