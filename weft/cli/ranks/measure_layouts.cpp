#include "weft/cli/ranks/measure_layouts.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/printable.h"
#include "weft/cli/ranks/recipe_runs.h"
#include "weft/launch/rank_limits.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/study/scale_grid.h"
#include "weft/study/scale_report.h"

namespace weft {

namespace {

RecipeRun measuring_run(const Recipe& recipe, const LayoutForecast& layout, const MeasureOptions& options, size_t place,
                        int round) {
  const std::string file = fmt::format("{}/layout-{}-{}", options.folder, place + 1, round + 1);
  RecipeRun run{.recipe = options.recipe,
                .overrides = options.overrides,
                .ranks = options.ranks,
                .threads = run_threads(options.ranks),
                .summary = file + ".json",
                .log = file + ".log"};
  for (const std::vector<std::string>& more :
       {short_run_overrides(recipe.batch.global, options.steps), layout_settings(with_layout(recipe, layout))}) {
    run.overrides.insert(run.overrides.end(), more.begin(), more.end());
  }
  return run;
}

ScaleResult result_of_run(const RecipeRun& run, const RecipeRunEnd& end) {
  constexpr int64_t kLongestSummary = 1 << 24;
  if (!end.error.empty()) return {.failure = end.error};
  return parse_scale_point({}, read_text_file("the summary", run.summary, kLongestSummary), run.summary);
}

}  // namespace

void check_measurable(const Recipe& recipe, int ranks) {
  check_rank_count(ranks);
  if (recipe.save.folder.empty()) return;
  throw InputError(fmt::format("{}: save.folder is set, but runs that only measure save nothing; leave it out", recipe.path));
}

void check_is_here(const Recipe& recipe, const Hardware& hardware, const std::string& path) {
  const std::string here(kTargetDevices.of(planned_device(recipe)));
  if (hardware.kind.empty() || hardware.kind == here) return;
  throw InputError(fmt::format(
      "--measure trains here, on {}, but {} describes devices of kind {}: leave it out, or plan with a file of this "
      "machine, which weft calibrate writes",
      here, printable(path), hardware.kind));
}

std::vector<MeasuredLayout> measure_layouts(const Recipe& recipe, const std::vector<LayoutForecast>& layouts,
                                            const MeasureOptions& options) {
  check_measurable(recipe, options.ranks);
  const FileDescriptor held = hold_results_folder(options.folder);
  std::vector<RecipeRun> runs;  // in rounds, so that a passing disturbance of the machine affects all alike
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < layouts.size(); ++i) runs.push_back(measuring_run(recipe, layouts[i], options, i, round));
  }
  std::vector<std::vector<ScaleResult>> results(layouts.size());
  const int interrupt = run_recipes(runs, 1, 0.0, [&](size_t run, const RecipeRunEnd& end) {
    results[run % layouts.size()].push_back(result_of_run(runs[run], end));
  });
  if (interrupt != 0) throw Error("the measurement was ended by a signal");
  std::vector<MeasuredLayout> measured;
  for (const std::vector<ScaleResult>& rounds : results) {
    const ScaleResult middle = median_of_runs(rounds);
    measured.push_back({.step_s = middle.failure.empty() ? 1e-3 * middle.step_ms : 0.0, .failure = middle.failure});
  }
  return measured;
}

std::optional<size_t> fastest_measured(const std::vector<MeasuredLayout>& measured) {
  std::optional<size_t> fastest;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (measured[i].failure.empty() && (!fastest || measured[i].step_s < measured[*fastest].step_s)) fastest = i;
  }
  return fastest;
}

}  // namespace weft
