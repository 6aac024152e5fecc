#include "weft/report/history/compare_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "weft/base/median.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/report/history/figure_text.h"
#include "weft/report/history/text_table.h"

namespace weft {
namespace {

constexpr double kUnknownFigure = std::numeric_limits<double>::quiet_NaN();

/// Details that name a run or this form of records, not what the run does.
bool is_name(std::string_view key) {
  constexpr std::array<std::string_view, 4> kNames = {"name", "recipe", "hosts", "records"};
  constexpr std::string_view kRecipe = "recipe.";
  return std::find(kNames.begin(), kNames.end(), key) != kNames.end() ||
         (key.starts_with(kRecipe) && names_a_run(key.substr(kRecipe.size())));
}

std::map<std::string, std::string> facts_of(const RunHistory& run) {
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : start_details(run, "")) {
    if (!is_name(key)) facts[key] = value;
  }
  return facts;
}

using Rows = std::vector<std::vector<std::string>>;

/// A table below its title; nothing where there is only a heading.
std::string titled(const char* title, const Rows& rows) {
  return rows.size() > 1 ? fmt::format("\n{}\n{}", title, text_table(rows, "  ")) : "";
}

double last_samples(const RunHistory& run) { return last_value(run.metrics(), "samples").value_or(0.0); }

std::string text_of(const SpreadValue& value, const char* format) {
  if (value.count == 0) return "-";
  const auto shown = [&](double x) { return std::fabs(x) < 1e5 ? fmt::format(fmt::runtime(format), x) : figure_text(x); };
  return shown(value.mean) + (value.count > 1 ? " +- " + shown(value.spread) : "");
}

using Figure = std::function<double(const RunHistory&)>;

SpreadValue of_group(const RunGroup& group, const Figure& figure) {
  std::vector<double> values;
  for (const RunHistory* run : group.runs) {
    if (const double value = figure(*run); std::isfinite(value)) values.push_back(value);
  }
  return spread_of(values);
}

double median_of(const Metrics& metrics, std::string_view name) { return median_value(metrics, name).value_or(kUnknownFigure); }

void add_figure(Rows& rows, const std::string& name, const std::vector<RunGroup>& groups, const char* format,
                const Figure& figure) {
  std::vector<std::string> cells = {name};
  bool any = false;
  for (const RunGroup& group : groups) {
    const SpreadValue value = of_group(group, figure);
    any |= value.count > 0;
    cells.push_back(text_of(value, format));
  }
  if (any) rows.push_back(std::move(cells));
}

std::vector<std::string> names(const std::vector<RunGroup>& groups) {
  std::vector<std::string> cells;
  for (const RunGroup& group : groups) {
    const std::string seeds = group.runs.size() > 1 ? fmt::format(" ({} seeds)", group.runs.size()) : "";
    cells.push_back(printable(group.name) + seeds);
  }
  return cells;
}

std::vector<std::string> row_of(const std::string& first, std::vector<std::string> others) {
  others.insert(others.begin(), first);
  return others;
}

std::string curves_text(const std::vector<RunGroup>& groups) {
  double shared = std::numeric_limits<double>::infinity();
  for (const RunGroup& group : groups) {
    for (const RunHistory* run : group.runs) {
      if (const double own = last_samples(*run); own > 0.0) shared = std::min(shared, own);
    }
  }
  if (!std::isfinite(shared)) return "";
  Rows rows = {row_of("samples", names(groups))};
  for (const double share : {0.1, 0.25, 0.5, 0.75, 1.0}) {
    add_figure(rows, format_count(share * shared), groups, "{:.4f}",
               [&](const RunHistory& run) { return value_near(run, "loss", share * shared, shared); });
  }
  return titled("loss at equal samples", rows);
}

/// Last values of the evaluations.
void add_evaluations(Rows& rows, const std::vector<RunGroup>& groups) {
  std::vector<std::pair<std::string, std::string>> seen;
  for (const RunGroup& group : groups) {
    for (const RunHistory* run : group.runs) {
      for (const EvaluationRecord& evaluation : run->metrics().evaluations) {
        for (const RecordValue& value : evaluation.values) {
          const std::pair<std::string, std::string> name{evaluation.set, value.name};
          if (value.name != "seconds" && std::find(seen.begin(), seen.end(), name) == seen.end()) seen.push_back(name);
        }
      }
    }
  }
  for (const auto& [set, name] : seen) {
    add_figure(rows, printable(set) + " " + name, groups, "{:.4f}", [&set = set, &name = name](const RunHistory& run) {
      const auto points = evaluations_of(run.metrics(), set, name);
      return points.empty() ? kUnknownFigure : points.back().second;
    });
  }
}

std::string ends_text(const std::vector<RunGroup>& groups) {
  Rows rows = {row_of("", names(groups))};
  const auto last = [](const char* name) {
    return [name](const RunHistory& run) { return last_value(run.metrics(), name).value_or(kUnknownFigure); };
  };
  add_figure(rows, "steps", groups, "{:.0f}", [](const RunHistory& run) {
    return run.metrics().steps.empty() ? kUnknownFigure : static_cast<double>(run.metrics().steps.back());
  });
  add_figure(rows, "samples", groups, "{:.0f}", last("samples"));
  add_figure(rows, "loss (last twentieth)", groups, "{:.4f}",
             [](const RunHistory& run) { return value_near(run, "loss", last_samples(run), last_samples(run)); });
  add_evaluations(rows, groups);
  add_figure(rows, "step, median ms", groups, "{:.1f}",
             [](const RunHistory& run) { return 1e3 * median_of(run.metrics(), "time/step"); });
  add_figure(rows, "samples/s, median", groups, "{:.1f}",
             [](const RunHistory& run) { return median_of(run.metrics(), "samples_per_s"); });
  add_figure(rows, "hours", groups, "{:.3f}",
             [](const RunHistory& run) { return last_value(run.metrics(), "seconds").value_or(kUnknownFigure) / 3600.0; });
  return titled("at their ends", rows);
}

}  // namespace

std::vector<RunGroup> grouped_by_seed(const std::vector<const RunHistory*>& runs) {
  std::vector<RunGroup> groups;
  struct Kind {
    std::map<std::string, std::string> facts;  ///< without the seed
    std::set<std::string> seeds;
  };
  std::vector<Kind> kinds;
  for (const RunHistory* run : runs) {
    std::map<std::string, std::string> facts = facts_of(*run);
    std::string seed = std::exchange(facts["recipe.run.seed"], "");
    const bool is_known = facts.size() > 1;
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) {
      return is_known && kind.facts == facts && !kind.seeds.contains(seed);  // one seed twice has no spread
    });
    if (same == kinds.end()) {
      groups.push_back({.name = name_of(*run), .runs = {run}});
      kinds.push_back({std::move(facts), {std::move(seed)}});
    } else {
      groups[static_cast<size_t>(same - kinds.begin())].runs.push_back(run);
      same->seeds.insert(std::move(seed));
    }
  }
  for (RunGroup& group : groups) {  // runs of one recipe have one name, unless run.name says another
    const auto is_alike = [&](const RunGroup& other) { return name_of(*other.runs.front()) == name_of(*group.runs.front()); };
    if (std::count_if(groups.begin(), groups.end(), is_alike) > 1) group.name = group.runs.front()->path;
  }
  return groups;
}

SpreadValue spread_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {.mean = mean,
          .spread = values.size() > 1 ? std::sqrt(squares / (count - 1.0)) : 0.0,
          .count = static_cast<int>(values.size())};
}

std::vector<Difference> differences(const std::vector<RunGroup>& groups) {
  std::vector<std::map<std::string, std::string>> facts;
  std::map<std::string, int> keys;
  for (const RunGroup& group : groups) {
    facts.push_back(facts_of(*group.runs.front()));
    for (const auto& [key, value] : facts.back()) ++keys[key];
  }
  std::vector<Difference> found;
  for (const auto& [key, count] : keys) {
    Difference difference{.key = key.starts_with("recipe.") ? key.substr(7) : key, .values = {}};
    for (auto& own : facts) difference.values.push_back(own.count(key) > 0 ? own[key] : "-");
    const auto& values = difference.values;
    if (std::any_of(values.begin(), values.end(), [&](const std::string& value) { return value != values.front(); }))
      found.push_back(std::move(difference));
  }
  return found;
}

double value_near(const RunHistory& run, std::string_view value, double samples, double whole) {
  const std::vector<double>*ys = run.metrics().column(value), *xs = run.metrics().column("samples");
  if (ys == nullptr || xs == nullptr) return kUnknownFigure;
  double sum = 0.0, count = 0.0;
  for (size_t i = 0; i < ys->size(); ++i) {
    if ((*xs)[i] > samples || (*xs)[i] <= samples - whole / 20.0 || !std::isfinite((*ys)[i])) continue;
    sum += (*ys)[i];
    count += 1.0;
  }
  return count > 0.0 ? sum / count : kUnknownFigure;
}

std::vector<std::string> compared_values() { return {"loss", "samples", "samples_per_s", "seconds", "time/step"}; }

std::string comparison_text(const std::vector<const RunHistory*>& runs, double now_s) {
  const std::vector<RunGroup> groups = grouped_by_seed(runs);
  std::string text;
  for (const RunGroup& group : groups) {
    for (const RunHistory* run : group.runs) {
      text += fmt::format("{}: {}, {}{}\n", printable(name_of(*run)), printable(run->path),
                          standing_name(standing_of(*run, now_s)), damage_text(run->metrics()));
    }
  }
  Rows rows = {row_of("", names(groups))};
  const std::vector<Difference> all = differences(groups);
  for (const Difference& difference : all) {
    std::vector<std::string> cells = {printable(difference.key)};
    std::transform(difference.values.begin(), difference.values.end(), std::back_inserter(cells),
                   [](const std::string& value) { return shortened(value, 40); });
    rows.push_back(std::move(cells));
  }
  text += all.empty() ? "\nrecipes, layouts and versions are the same\n" : titled("what differs", rows);
  return text + curves_text(groups) + ends_text(groups);
}

}  // namespace weft
