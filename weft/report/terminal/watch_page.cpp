#include "weft/report/terminal/watch_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "weft/base/local_time.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/report/history/figure_text.h"
#include "weft/report/terminal/plot.h"

namespace weft {
namespace {

constexpr int kLeastWidth = 40, kLeastHeight = 12;
constexpr int kLeastChart = 6;        ///< lines
constexpr int kLeastWidthOfTwo = 60;  ///< columns for two charts side by side
constexpr size_t kEvents = 3;
constexpr size_t kEventsInALog = 12;

const char* axis_name(WatchAxis axis) {
  switch (axis) {
    case WatchAxis::steps:
      return "step";
    case WatchAxis::samples:
      return "samples";
    case WatchAxis::tokens:
      return "tokens";
    case WatchAxis::hours:
      return "hours";
  }
  return "";
}

std::vector<double> xs_of(const Metrics& metrics, WatchAxis axis) {
  if (axis == WatchAxis::steps) return {metrics.steps.begin(), metrics.steps.end()};
  const char* name = axis == WatchAxis::samples ? "samples" : axis == WatchAxis::tokens ? "tokens" : "seconds";
  const std::vector<double>* column = metrics.column(name);
  std::vector<double> xs = column == nullptr ? std::vector<double>(metrics.steps.size(), NAN) : *column;
  if (axis == WatchAxis::hours) {
    for (double& x : xs) x /= 3600.0;
  }
  return xs;
}

/// The curve of a step's value, or of an evaluation's: "evaluation/accuracy".
PlotCurve curve_of(const RunHistory& run, const std::string& value, WatchAxis axis) {
  const Metrics& metrics = run.metrics();
  PlotCurve curve{.name = printable(name_of(run)), .x = xs_of(metrics, axis)};
  if (const std::vector<double>* column = metrics.column(value)) {
    curve.y = *column;
    return curve;
  }
  const std::vector<double> xs = std::move(curve.x);
  curve.x.clear();
  const size_t slash = value.rfind('/');
  if (slash == std::string::npos) return curve;
  for (const auto& [step, y] : evaluations_of(metrics, value.substr(0, slash), value.substr(slash + 1))) {
    const auto next = std::lower_bound(metrics.steps.begin(), metrics.steps.end(), step) - metrics.steps.begin();
    if (xs.empty()) continue;
    curve.x.push_back(axis == WatchAxis::steps ? static_cast<double>(step)
                                               : xs[std::min(static_cast<size_t>(next), xs.size() - 1)]);
    curve.y.push_back(y);
  }
  return curve;
}

std::vector<std::string> chart(std::span<const RunHistory* const> runs, const std::string& value, const WatchOptions& options,
                               int width, int height) {
  std::vector<PlotCurve> curves;
  for (const RunHistory* run : runs) {
    curves.push_back(curve_of(*run, value, options.axis));
    if (shares_name(*run, runs)) curves.back().name = printable(folder_of(*run));
  }
  return plot(curves,
              {.width = width, .height = height, .title = value, .x_name = axis_name(options.axis), .colors = options.colors});
}

std::vector<std::string> side_by_side(const std::vector<std::string>& left, const std::vector<std::string>& right) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) lines.push_back(left[i] + " " + right[i]);
  return lines;
}

/// "gpt on 4 ranks: running, step 120 of 500, 3 min left".
std::string heading(const RunHistory& run, const WatchOptions& options) {
  const RunStanding standing = standing_of(run, options.now_s);
  const int64_t step = run.metrics().steps.empty() ? 0 : run.metrics().steps.back(), all = steps_in_all(run);
  const std::string folder = folder_of(run);
  const std::string where = folder == name_of(run) || folder.empty() ? "" : fmt::format(" ({})", folder);
  std::string text = fmt::format("{}{}: {}", name_of(run), where, standing_name(standing));
  if (standing == RunStanding::silent) text += fmt::format(" for {}", format_duration(options.now_s - newest_s(run)));
  text += all > 0 ? fmt::format(", step {} of {}", step, all) : fmt::format(", step {}", step);
  if (const auto left = seconds_left(run, options.now_s)) text += fmt::format(", {} left", format_duration(*left));
  text += damage_text(run.metrics());
  const std::string model = start_detail(run, "recipe.model.name"), ranks = start_detail(run, "ranks");
  if (!model.empty()) text += fmt::format("  ({} on {} rank{})", model, ranks, ranks == "1" ? "" : "s");
  return printable(text);
}

/// Rates of a run that has ended: the median.
std::string figures(const RunHistory& run, double now_s) {
  if (run.metrics().steps.empty()) return "no steps yet";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "  ") + part; };
  const auto value = [&](const char* name) { return last_value(run.metrics(), name); };
  const std::vector<double>* losses = run.metrics().column("loss");
  if (losses != nullptr && !losses->empty())
    add(std::isfinite(losses->back()) ? "loss " + figure_text(losses->back()) : "loss not finite");
  const bool runs = standing_of(run, now_s) == RunStanding::running;
  const auto rate = [&](const char* name) { return runs ? value(name) : median_value(run.metrics(), name); };
  if (const auto tokens = rate("tokens_per_s")) {
    add(format_count(*tokens) + " tokens/s");
  } else if (const auto samples = rate("samples_per_s")) {
    add(format_count(*samples) + " samples/s");
  }
  if (const auto mfu = value("mfu")) add(fmt::format("MFU {:.1f} %", 100.0 * *mfu));
  if (const auto norm = value("grad_norm")) add(fmt::format("norm {:.3g}", *norm));
  if (const auto lr = value("lr")) add(fmt::format("lr {:.3g}", *lr));
  if (!run.metrics().evaluations.empty()) {
    const EvaluationRecord& last = run.metrics().evaluations.back();
    const auto accuracy = value_of(last.values, "accuracy"), loss = value_of(last.values, "loss");
    if (accuracy)
      add(fmt::format("accuracy {:.2f} %", 100.0 * *accuracy));
    else if (loss)
      add("evaluation " + figure_text(*loss));
  }
  return text;
}

/// The last step's parts: "step 41 ms  forward 30 %  backward 50 % ...".
std::string phases(const RunHistory& run, int width) {
  struct Part {
    std::string name;
    double share;
  };
  const double step = last_value(run.metrics(), "time/step").value_or(0.0);
  if (step <= 0.0) return "";
  std::vector<Part> parts;
  double rest = 1.0;
  const auto add = [&](std::string name, const std::string& value) {
    const double share = last_value(run.metrics(), value).value_or(0.0) / step;
    if (share < 0.005) return;
    parts.push_back({std::move(name), share});
    rest -= share;
  };
  for (const char* phase : {"forward", "backward", "update", "data"}) add(phase, std::string("time/") + phase);
  for (const MetricColumn& column : run.metrics().columns) {
    if (column.name.starts_with("communication/")) add(column.name.substr(column.name.find('/') + 1), column.name);
  }
  if (rest > 0.005) parts.push_back({"rest", rest});
  std::string text = fmt::format("step {}", format_duration(step));
  for (const Part& part : parts) text += fmt::format("  {} {:.0f} %", part.name, 100.0 * part.share);
  return in_columns(text, static_cast<size_t>(width));
}

/// The categories, the largest first.
std::string memory(const RunHistory& run) {
  std::vector<std::pair<double, std::string>> parts;
  for (const MetricColumn& column : run.metrics().columns) {
    if (!column.name.starts_with("memory/")) continue;
    const auto value = last_value(run.metrics(), column.name);
    if (!value) continue;
    std::string name = column.name.substr(column.name.find('/') + 1);
    std::replace(name.begin(), name.end(), '_', ' ');
    parts.emplace_back(-*value, fmt::format("  {} {}", name, recorded_bytes_text(*value)));
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (const auto& [size, part] : parts) text += part;
  return text.empty() ? "" : "memory" + text;
}

std::string slowest(const RunHistory& run) {
  const auto rank = last_value(run.metrics(), "ranks/slowest"), times = last_value(run.metrics(), "ranks/slowest_times");
  if (!rank || !times) return "";
  return fmt::format("ranks  slowest: rank {:.0f}, {:.2f}x the others' own work", *rank, *times);
}

/// The last one, then warnings and errors before others, the newest of each; in the order of time.
std::vector<std::string> last_events(const RunHistory& run, size_t most) {
  std::vector<size_t> order(run.events.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  const auto is_other = [&](size_t i) { return run.events[i].kind != "warning" && run.events[i].kind != "error"; };
  if (!order.empty())
    std::stable_sort(order.begin() + 1, order.end(), [&](size_t a, size_t b) { return is_other(a) < is_other(b); });
  order.resize(std::min(order.size(), most));
  std::sort(order.begin(), order.end());
  std::vector<std::string> lines;
  for (const size_t i : order) {
    const EventRecord& event = run.events[i];
    constexpr size_t kDate = 11;  // columns of "2026-12-01 "
    lines.push_back(fmt::format("{} {}: {}", local_time_text(event.time_s).substr(kDate), event.kind, printable(event.text)));
  }
  return lines;
}

/// Why the run has failed, in up to five lines; nothing where events have whole lines anyway.
std::vector<std::string> error_lines(const RunHistory& run, const WatchOptions& options, int width) {
  constexpr size_t kMost = 5;
  std::vector<std::string> lines;
  std::string rest = options.whole_lines ? "" : printable(failure_of(run, options.now_s));
  const auto room = static_cast<size_t>(width) - 2;
  while (!rest.empty() && lines.size() < kMost) {
    size_t end = rest.size() <= room ? rest.size() : rest.rfind(' ', room);
    if (end == std::string::npos || end == 0) end = std::min(room, rest.size());
    lines.push_back("  " + rest.substr(0, end));
    rest.erase(0, end == rest.size() ? end : end + (rest[end] == ' ' ? 1 : 0));
  }
  return lines;
}

void add_all(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

/// What the small chart shows: accuracy, or the evaluations' loss, or the rate; not what the large one does.
std::string second_value(const RunHistory& run, const std::string& first) {
  std::string second = run.metrics().evaluations.size() > 1 ? run.metrics().evaluations.front().set + "/loss" : "lr";
  for (const EvaluationRecord& evaluation : run.metrics().evaluations) {
    if (value_of(evaluation.values, "accuracy")) second = evaluation.set + "/accuracy";
  }
  return second == first ? (first == "lr" ? "loss" : "lr") : second;
}

/// A large chart, and below it, where there is room, a small one or two.
std::vector<std::string> charts(std::span<const RunHistory* const> runs, const std::array<std::string, 3>& values,
                                const WatchOptions& options, int width, int height) {
  const int small = std::max(kLeastChart, height / 4), large = height - small;
  if (large < kLeastChart) return chart(runs, values[0], options, width, std::max(kLeastChart, height));
  std::vector<std::string> lines = chart(runs, values[0], options, width, large);
  const int half = (width - 1) / 2;
  add_all(lines, width < kLeastWidthOfTwo ? chart(runs, values[1], options, width, small)
                                          : side_by_side(chart(runs, values[1], options, half, small),
                                                         chart(runs, values[2], options, half, small)));
  return lines;
}

std::vector<std::string> page_of_one(const RunHistory& run, const WatchOptions& options, int width, int height) {
  std::vector<std::string> below;
  for (const std::string& line : {phases(run, width), slowest(run), memory(run)}) {
    if (!line.empty()) below.push_back(line);
  }
  add_all(below, last_events(run, options.whole_lines ? kEventsInALog : kEvents));
  const RunHistory* const self[] = {&run};
  std::vector<std::string> lines = {heading(run, options), figures(run, options.now_s)};
  add_all(lines, error_lines(run, options, width));
  const char* rate = run.metrics().column("tokens_per_s") != nullptr ? "tokens_per_s" : "samples_per_s";
  add_all(lines, charts(self, {options.value, second_value(run, options.value), rate}, options, width,
                        height - static_cast<int>(lines.size() + below.size())));
  add_all(lines, below);
  return lines;
}

std::vector<std::string> page_of_several(std::span<const RunHistory* const> runs, const WatchOptions& options, int width,
                                         int height) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < runs.size() && (i == 0 || static_cast<int>(2 * i) + 14 < height); ++i) {
    lines.push_back(fmt::format("{} {}", (i + 1) % 10, heading(*runs[i], options)));
    lines.push_back("  " + figures(*runs[i], options.now_s));
  }
  if (lines.size() < 2 * runs.size()) lines.push_back(fmt::format("and {} more", runs.size() - lines.size() / 2));
  add_all(lines, charts(runs, {options.value, second_value(*runs.front(), options.value), "samples_per_s"}, options, width,
                        height - static_cast<int>(lines.size())));
  return lines;
}

}  // namespace

std::vector<std::string> watch_page(const std::vector<const RunHistory*>& runs, const WatchOptions& options) {
  const int width = std::max(options.width, kLeastWidth), height = std::max(options.height, kLeastHeight);
  std::vector<std::string> lines =
      runs.size() == 1 ? page_of_one(*runs.front(), options, width, height) : page_of_several(runs, options, width, height);
  if (!options.whole_lines && lines.size() > static_cast<size_t>(height)) lines.resize(static_cast<size_t>(height));
  for (std::string& line : lines) {
    if (!options.whole_lines && columns_of_text(line) > static_cast<size_t>(width)) {
      line = in_columns(line, static_cast<size_t>(width) - 1) + "…";
    }
    while (line.ends_with(' ')) line.pop_back();
  }
  return lines;
}

}  // namespace weft
