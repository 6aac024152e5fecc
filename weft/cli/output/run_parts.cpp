#include "weft/cli/output/run_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/shipped_files.h"
#include "weft/base/units.h"
#include "weft/plan/forecast.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/make_plan.h"
#include "weft/program/draw/bars.h"
#include "weft/program/draw/svg.h"
#include "weft/program/fingerprint.h"
#include "weft/program/simulate/simulation.h"
#include "weft/recipe/read/saved_recipe.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/report/history/figure_text.h"
#include "weft/report/profile/step_timeline.h"

namespace weft {

namespace {

constexpr int kMostPanelRows = 24;
constexpr size_t kMostBars = 2000;  // some 150 bytes each: the page stays below 1 MB
constexpr int64_t kLongestProfile = int64_t{1} << 28;

using KindSeconds = std::array<double, kBarKinds.size()>;

/// A run's recipe as it was used.
struct UsedRecipe {
  Recipe recipe = {};
  int ranks = 1;
};

UsedRecipe used_recipe(const RunHistory& run) {
  const auto values = start_details(run, "recipe.");
  return {recipe_of_values(used_values({values.begin(), values.end()}), start_detail(run, "recipe")),
          parse_number<int>(start_detail(run, "ranks")).value_or(1)};
}

/// The step that a profile has kept, and the plan of its program.
struct MeasuredPanel {
  StepTimeline timeline = {};
  Plan plan = {};
};

/// Only the first rank of each class of identical ranks, where not all fit.
void leave_rows(StepTimeline& timeline, const Simulation& predicted) {
  std::vector<TimedInstruction>& timed = timeline.timed;
  int rows = 0;
  for (size_t i = 0; i < timed.size(); ++i) rows += i == 0 || timed[i].rank != timed[i - 1].rank ? 1 : 0;
  if (rows <= kMostPanelRows) return;
  const auto is_first = [&](int rank) { return predicted.of(rank).rank == rank; };
  timed.erase(std::remove_if(timed.begin(), timed.end(), [&](const TimedInstruction& x) { return !is_first(x.rank); }),
              timed.end());
}

/// Empty, and a note why: there is no profile, or it is of another program.
std::optional<MeasuredPanel> measured_panel(const RunReader& reader, const UsedRecipe& used, const Simulation& predicted,
                                            std::string& note) {
  const std::string text = reader.file(kTimelineFile, kLongestProfile);
  if (text.empty()) {
    note += " For the same step as it ran, train with --profile 10.";
    return std::nullopt;
  }
  try {
    MeasuredPanel panel{.timeline = parse_timeline(text, reader.run().path + "/" + kTimelineFile)};
    panel.plan = make_plan(used.recipe, used.ranks);
    if (panel.timeline.program != fingerprint(*panel.plan.program))
      throw InputError("it is of another program than the recipe's");
    leave_rows(panel.timeline, predicted);
    return panel;
  } catch (const Error& error) {
    note += fmt::format(" The profiled step is not drawn: {}.", error.what());
    return std::nullopt;
  }
}

std::string measured_title(const StepTimeline& timeline) {
  if (timeline.steps.size() == 1) return fmt::format("measured, step {}", timeline.step);
  return fmt::format("measured, step {}: the median of {} to {}", timeline.step, timeline.steps.front(), timeline.steps.back());
}

/// "1.09x the prediction".
std::string apart_text(double measured_s, double predicted_s) {
  const double ratio = predicted_s > 0.0 ? measured_s / predicted_s : 0.0;
  return ratio < 100.0 ? fmt::format("{:.3g}x the prediction", ratio) : fmt::format("{:.0f}x the prediction", ratio);
}

/// Below one another on one axis, or each on its own where the shorter step would not be seen.
std::string panels_svg(const std::vector<SvgPanel>& panels, std::string& note) {
  constexpr double kSeen = 20.0, kPageLength = 980.0;
  const SvgOptions options{.max_rows = kMostPanelRows, .max_length = kPageLength, .max_bars = kMostBars};
  const double first_s = end_of(panels.front().timed), last_s = end_of(panels.back().timed);
  if (std::max(first_s, last_s) <= kSeen * std::min(first_s, last_s)) return draw_svg(panels, options);
  note += " Each is on an axis of its own.";
  return draw_svg({panels.front()}, options) + draw_svg({panels.back()}, options);
}

/// Mean seconds per rank, by kind of work.
ReportTable step_table(const KindSeconds& predicted, double predicted_s, const std::optional<KindSeconds>& measured,
                       double measured_s) {
  ReportTable table{.head = {"mean per rank", "predicted"}, .rows = {}};
  if (measured) table.head.insert(table.head.end(), {"measured", "ratio"});
  const auto add = [&](const std::string& name, double before, double after) {
    std::vector<std::string> row = {name, format_duration(before)};
    if (measured) {
      row.push_back(format_duration(after));
      row.push_back(before > 0.0 ? fmt::format("{:.2f}", after / before) : "-");
    }
    table.rows.push_back(std::move(row));
  };
  for (size_t i = 0; i < kBarKinds.size(); ++i) {
    const double after = measured ? (*measured)[i] : 0.0;
    if (predicted[i] + after > 0.0) add(std::string(name(static_cast<BarKind>(i))), predicted[i], after);
  }
  add("step", predicted_s, measured_s);
  return table;
}

/// "; the median of all measured steps is 12 ms".
std::string median_step(const RunHistory& run) {
  const std::optional<double> step = median_value(run.metrics(), "time/step");
  return step ? fmt::format("; the median of all steps measured is {}", format_duration(*step)) : "";
}

ReportPart step_part(const RunReader& reader, const UsedRecipe& used) {
  const std::string& path = used.recipe.run.hardware;
  const Hardware hardware = path.empty() ? nominal_hardware() : load_hardware(shipped_or_own("hardware", path));
  const Recipe recipe = for_hardware(used.recipe, hardware);
  const Plan plan = make_plan(recipe, used.ranks);
  const RecipeSimulation predicted = recipe_simulation(recipe, plan, hardware, path);
  const Simulation& step = predicted.simulation;
  const std::vector<TimedInstruction> timed = timed_instructions(*plan.program, step);
  ReportPart part{.title = "A step"};
  part.note =
      fmt::format("Predicted ({}): {} a step{}.{}", hardware.name, format_duration(step.step_s), median_step(reader.run()),
                  path.empty() ? " Those are round numbers: run.hardware names real hardware." : "");
  std::vector<SvgPanel> panels = {{"predicted", plan.program.get(), timed}};
  const std::optional<MeasuredPanel> measured = measured_panel(reader, used, step, part.note);
  std::optional<KindSeconds> measured_kinds;
  double measured_s = 0.0;
  if (measured) {
    measured_s = end_of(measured->timeline.timed);
    panels.push_back({measured_title(measured->timeline), measured->plan.program.get(), measured->timeline.timed});
    measured_kinds = seconds_by_kind(bar_rows(*measured->plan.program, measured->timeline.timed));
    part.note += fmt::format(" Profiled: {}, {}.", format_duration(measured_s), apart_text(measured_s, step.step_s));
    part.text = reader.file("profile/profile.txt", kLongestProfile);
    part.text_title = "Where the profiled time went";
  }
  part.svg = panels_svg(panels, part.note);
  part.table = step_table(seconds_by_kind(bar_rows(*plan.program, timed)), step.step_s, measured_kinds, measured_s);
  return part;
}

/// The greatest value of the run; 0: there is none.
double most_of(const Metrics& metrics, const std::string& name) {
  double most = 0.0;
  if (const std::vector<double>* column = metrics.column(name)) {
    for (const double value : *column) most = std::isfinite(value) ? std::max(most, value) : most;
  }
  return most;
}

ReportPart memory_part(const RunHistory& run, const UsedRecipe& used) {
  const RecipeMemory memory = recipe_memory(used.recipe, used.ranks);
  const MemoryEstimate& rank_0 = memory.by_stage_rank.front();
  ReportPart part{.title = "Memory of rank 0"};
  part.table.head = {"at most", "predicted", "measured", "ratio"};
  const auto text = recorded_bytes_text;
  bool any = false;
  for (size_t i = 0; i < kMemoryCategories.size(); ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    const std::string name(kMemoryCategories.of(category));
    const double before = static_cast<double>(rank_0.peak[i]), after = most_of(run.metrics(), record_name(category));
    if (before + after == 0.0) continue;
    any |= after > 0.0;
    part.bars.push_back({name, {before, after}, {"predicted " + text(before), "measured " + text(after)}});
    part.table.rows.push_back({name, text(before), text(after), before > 0.0 ? fmt::format("{:.2f}", after / before) : "-"});
  }
  part.note = fmt::format("Most of each category, as weft memory predicts it and as it was; at once, {} at most by prediction.",
                          format_bytes(rank_0.total()));
  if (const double resident = most_of(run.metrics(), "memory/resident"); resident > 0.0)
    part.note += fmt::format(" The process held {}, code and kernels' workspaces included.", text(resident));
  if (any) return part;
  part.note += " The run has no measured ones: they are recorded on CPUs.";
  for (ReportBars& bars : part.bars) bars = {bars.name, {bars.values.front()}, {bars.texts.front()}};
  return part;
}

}  // namespace

std::vector<ReportPart> run_parts(const RunReader& reader) {
  std::vector<ReportPart> parts;
  const auto add = [&](const char* title, const auto& part_of) {
    try {
      parts.push_back(part_of(used_recipe(reader.run())));
    } catch (const Error& error) {
      parts.push_back({.title = title, .note = fmt::format("Not drawn for this run: {}", error.what())});
    }
  };
  add("A step", [&](const UsedRecipe& used) { return step_part(reader, used); });
  add("Memory of rank 0", [&](const UsedRecipe& used) { return memory_part(reader.run(), used); });
  return parts;
}

}  // namespace weft
