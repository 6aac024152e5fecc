#include "weft/study/study_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/report/charts/line_chart.h"

namespace weft {
namespace {

using StudyJson = nlohmann::ordered_json;

std::vector<std::string> series_of(const Study& study) {
  std::vector<std::string> names;
  for (const PointResult& result : study.results) {
    if (std::find(names.begin(), names.end(), result.point.optimizer) == names.end()) names.push_back(result.point.optimizer);
  }
  return names;
}

std::set<int64_t> batches_of(const Study& study) {
  std::set<int64_t> batches;
  for (const PointResult& result : study.results) batches.insert(result.point.batch);
  return batches;
}

std::vector<const PointResult*> points_of(const Study& study, const std::string& optimizer, int64_t batch) {
  std::vector<const PointResult*> points;
  for (const PointResult& result : study.results) {
    if (result.point.optimizer == optimizer && result.point.batch == batch) points.push_back(&result);
  }
  return points;
}

/// "5: 3 reached, 1 diverged"
std::string rates_text(const std::vector<const PointResult*>& points) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < kPointOutcomes.size(); ++i) {
    const auto outcome = static_cast<PointOutcome>(i);
    const auto count = std::count_if(points.begin(), points.end(), [&](const auto* p) { return p->outcome == outcome; });
    if (count > 0) parts.push_back(fmt::format("{} {}", count, kPointOutcomes.of(outcome)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string steps_text(const PointResult* best) {
  if (best == nullptr) return "-";
  if (best->outcome != PointOutcome::reached) return fmt::format("not in {}", best->steps);
  const int64_t least = best->least_steps();
  return least == best->steps ? fmt::to_string(best->steps) : fmt::format("{} to {}", least, best->steps);
}

/// The rate in the grid, and the rate that the recipe's rule derives from it.
const PointResult* best_in(const Study& study, const std::string& optimizer, int64_t batch) {
  const auto target = parse_run_target(study.target);
  return best_of(study.results, optimizer, batch, target ? target->metric : TargetMetric::accuracy);
}

std::string rate_text(const PointResult& result) {
  const bool is_scaled = result.learning_rate > 0.0 && std::abs(result.learning_rate / result.point.rate - 1.0) > 1e-9;
  return is_scaled ? fmt::format("{} ({:.4g})", result.point.rate, result.learning_rate) : fmt::format("{}", result.point.rate);
}

std::string seconds_text(const PointResult& result) { return fmt::format(", {}", format_duration(result.seconds)); }

std::string table_row(const std::vector<std::string>& cells) {
  return fmt::format("  {:>7}  {:<9}  {:<14}  {:>15}  {:>9}  {:>9}  {:>8}  {}\n", cells[0], cells[1], cells[2], cells[3],
                     cells[4], cells[5], cells[6], cells[7]);
}

std::vector<std::string> cells_of(const Study& study, const std::string& optimizer, int64_t batch) {
  const PointResult* best = best_in(study, optimizer, batch);
  const bool is_reached = best != nullptr && best->outcome == PointOutcome::reached;
  return {fmt::to_string(batch),
          optimizer,
          best ? rate_text(*best) : "-",
          steps_text(best),
          is_reached ? format_count(static_cast<double>(best->samples())) : "-",
          best && best->accuracy ? fmt::format("{:.2f} %", 100.0 * *best->accuracy) : "-",
          best && best->loss ? fmt::format("{:.4f}", *best->loss) : "-",
          rates_text(points_of(study, optimizer, batch))};
}

/// Notes each batch whose best rate is at the edge of the rates tried.
std::string edge_lines(const Study& study, const std::string& optimizer) {
  std::vector<int64_t> least, most;
  for (const int64_t batch : batches_of(study)) {
    const PointResult* best = best_in(study, optimizer, batch);
    const std::vector<const PointResult*> points = points_of(study, optimizer, batch);
    if (best == nullptr || points.size() < 2) continue;
    const auto [low, high] = std::minmax_element(points.begin(), points.end(),
                                                 [](const auto* a, const auto* b) { return a->point.rate < b->point.rate; });
    if (best->point.rate == (*low)->point.rate) least.push_back(batch);
    if (best->point.rate == (*high)->point.rate) most.push_back(batch);
  }
  std::string lines;
  const auto line = [&](const std::vector<int64_t>& batches, const char* which, const char* other) {
    if (batches.empty()) return;
    lines += fmt::format("{}: at {} {} the best rate is the {} that was tried; a {} one may be better\n", optimizer,
                         batches.size() > 1 ? "batches" : "batch", fmt::join(batches, ", "), which, other);
  };
  line(least, "least", "smaller");
  line(most, "largest", "larger");
  return lines;
}

StudyJson number_or_null(const std::optional<double>& number) { return number ? StudyJson(*number) : StudyJson(nullptr); }

StudyJson json_of(const PointResult& result) {
  const bool is_reached = result.outcome == PointOutcome::reached;
  return {{"lr", result.point.rate},
          {"learning_rate", result.learning_rate},
          {"outcome", kPointOutcomes.of(result.outcome)},
          {"steps_to_target", is_reached ? StudyJson(result.steps) : StudyJson(nullptr)},
          {"steps_to_target_at_least", is_reached ? StudyJson(result.least_steps()) : StudyJson(nullptr)},
          {"samples_to_target", is_reached ? StudyJson(result.samples()) : StudyJson(nullptr)},
          {"steps_done", result.steps},
          {"steps_limit", result.point.steps},
          {"evaluate_every", result.point.evaluate_every},
          {"accuracy", number_or_null(result.accuracy)},
          {"loss", number_or_null(result.loss)},
          {"seconds", result.seconds},
          {"reason", result.reason.empty() ? StudyJson(nullptr) : StudyJson(result.reason)}};
}

/// Adds the line of an optimizer, and perfect scaling from its first point.
void add_lines(const Study& study, const std::string& optimizer, int colour, LineChart& chart) {
  ChartLine line{.name = optimizer, .colour = colour};
  for (const int64_t batch : batches_of(study)) {
    const PointResult* best = best_in(study, optimizer, batch);
    if (best == nullptr) continue;
    const bool is_reached = best->outcome == PointOutcome::reached;
    line.points.push_back({.x = static_cast<double>(batch),
                           .y = static_cast<double>(best->steps),
                           .least_y = is_reached ? static_cast<double>(best->least_steps()) : 0.0,
                           .is_open = !is_reached});
  }
  const auto anchor = std::find_if(line.points.begin(), line.points.end(), [](const ChartPoint& p) { return !p.is_open; });
  const auto last = static_cast<double>(*batches_of(study).rbegin());
  if (anchor != line.points.end() && anchor->x < last) {
    chart.lines.push_back({.name = fmt::format("perfect scaling{}", series_of(study).size() > 1 ? ", " + optimizer : ""),
                           .points = {{.x = anchor->x, .y = anchor->y}, {.x = last, .y = anchor->y * anchor->x / last}},
                           .colour = colour,
                           .is_ideal = true});
  }
  if (!line.points.empty()) chart.lines.push_back(std::move(line));
}

}  // namespace

std::string outcome_text(const PointResult& result) {
  switch (result.outcome) {
    case PointOutcome::reached:
      return fmt::format("reached after {} ({} samples)", counted(result.steps, "step"),
                         format_count(static_cast<double>(result.samples()))) +
             seconds_text(result);
    case PointOutcome::not_reached:
      return fmt::format("not reached in {}", counted(result.steps, "step")) + seconds_text(result);
    case PointOutcome::diverged:
      return result.reason.empty() ? "diverged" : fmt::format("diverged: {}", result.reason);
    case PointOutcome::failed:
      return fmt::format("failed: {}", result.reason);
    case PointOutcome::missing:
      break;
  }
  return "not run";
}

std::vector<std::vector<std::string>> study_cells(const Study& study) {
  std::vector<std::vector<std::string>> rows = {
      {"batch", "optimizer", "rate", "steps to target", "samples", "accuracy", "loss", "rates"}};
  for (const int64_t batch : batches_of(study)) {
    for (const std::string& optimizer : series_of(study)) rows.push_back(cells_of(study, optimizer, batch));
  }
  return rows;
}

std::string study_table(const Study& study) {
  std::string text = fmt::format("{}: steps to {}, the best of each batch's rates\n", printable(study.recipe), study.target);
  for (const std::vector<std::string>& cells : study_cells(study)) text += table_row(cells);
  text += "\"a to b\": the evaluation after b steps reached the target; the one after a - 1 did not.\n";
  for (const std::string& optimizer : series_of(study)) text += edge_lines(study, optimizer);
  return text;
}

std::string study_json(const Study& study) {
  StudyJson series = StudyJson::array();
  for (const std::string& optimizer : series_of(study)) {
    StudyJson rows = StudyJson::array();
    for (const int64_t batch : batches_of(study)) {
      const PointResult* best = best_in(study, optimizer, batch);
      StudyJson points = StudyJson::array();
      for (const PointResult* point : points_of(study, optimizer, batch)) points.push_back(json_of(*point));
      rows.push_back({{"batch", batch}, {"best", best ? json_of(*best) : StudyJson(nullptr)}, {"points", points}});
    }
    series.push_back({{"optimizer", optimizer}, {"rows", rows}});
  }
  return StudyJson{{"recipe", printable(study.recipe)}, {"target", study.target}, {"ranks", study.ranks}, {"series", series}}
             .dump(2) +
         "\n";
}

std::string study_chart(const Study& study) {
  LineChart chart{
      .title = fmt::format("Steps to {}", study.target),
      .subtitle = fmt::format("{}, {}, the best rate of each batch", printable(study.recipe), counted(study.ranks, "rank")),
      .x_title = "batch size (samples per step)",
      .y_title = "steps to target",
      .open_name = "not reached within these steps"};
  const auto is_reached = [](const PointResult& result) { return result.outcome == PointOutcome::reached; };
  if (std::none_of(study.results.begin(), study.results.end(), is_reached)) return {};
  int colour = 0;
  for (const std::string& optimizer : series_of(study)) add_lines(study, optimizer, colour++, chart);
  return draw_line_chart(chart);
}

}  // namespace weft
