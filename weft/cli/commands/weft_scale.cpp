// weft scale: how much faster a recipe trains on more ranks, in several layouts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/output.h"
#include "weft/cli/ranks/recipe_runs.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/study/read_results.h"
#include "weft/study/scale_report.h"

namespace weft {

namespace {

struct ScaleArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  ScaleGrid grid;
  bool strong = false, weak = false;
  std::string out;
};

/// Threads per rank, the same for any number of ranks: more threads for fewer ranks would hide what additional ranks gain.
int scale_threads(const Recipe& recipe, const ScaleGrid& grid) {
  const auto most = static_cast<int>(*std::max_element(grid.ranks.begin(), grid.ranks.end()));
  return recipe.run.threads ? static_cast<int>(*recipe.run.threads) : run_threads(most);
}

void write_scale(const ScaleArguments& arguments, const ScaleStudy& study) {
  write_out("\n" + scale_table(study));
  write_file(arguments.out + "/" + kScaleFile, scale_json(study));
  const std::string chart = scale_chart(study);
  if (!chart.empty()) write_file(arguments.out + "/scale.svg", chart);
  write_out(fmt::format("in {}: scale.json{}, and each run's summary and log\n", printable(arguments.out),
                        chart.empty() ? "" : ", scale.svg"));
}

RecipeRun run_of(const ScaleArguments& arguments, const Recipe& recipe, const ScalePoint& point, int threads, int64_t repeat) {
  const std::string file =
      fmt::format("{}/{}{}", arguments.out, point.name(), repeat == 0 ? "" : fmt::format("-{}", repeat + 1));
  RecipeRun run{.recipe = arguments.recipe,
                .overrides = arguments.overrides,
                .ranks = point.ranks,
                .threads = threads,
                .summary = file + ".json",
                .log = file + ".log"};
  run.overrides.insert(run.overrides.end(), point.overrides.begin(), point.overrides.end());
  if (!recipe.run.folder.empty()) run.overrides.push_back("run.folder=" + file);
  return run;
}

ScaleResult result_of(const ScalePoint& point, const RecipeRun& run, const RecipeRunEnd& end) {
  if (!end.error.empty()) return {.point = point, .failure = end.error};
  constexpr int64_t kLongestSummary = 1 << 24;
  return parse_scale_point(point, read_text_file("the summary", run.summary, kLongestSummary), run.summary);
}

int run_scale(ScaleArguments arguments) {
  ScaleGrid& grid = arguments.grid;
  if (arguments.strong || !arguments.weak) grid.modes.push_back(ScaleMode::strong);
  if (arguments.weak || !arguments.strong) grid.modes.push_back(ScaleMode::weak);
  if (arguments.out.empty()) arguments.out = std::filesystem::path(arguments.recipe).stem().string() + "-scale";
  const Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  const std::vector<ScalePoint> points = scale_points(arguments.recipe, arguments.overrides, grid);
  ScaleStudy study{
      .recipe = arguments.recipe, .cores = available_cores(), .threads = scale_threads(recipe, grid), .results = {}};
  const FileDescriptor held = hold_results_folder(arguments.out);
  for (const ScalePoint& point : points) study.results.push_back({.point = point, .failure = point.refusal});
  const std::vector<std::vector<size_t>> different = different_runs(points);
  std::vector<RecipeRun> runs;  // in rounds, so that a passing disturbance of the machine affects all alike
  for (int64_t repeat = 0; repeat < grid.repeats; ++repeat) {
    for (const std::vector<size_t>& same : different)
      runs.push_back(run_of(arguments, recipe, points[same.front()], study.threads, repeat));
  }
  write_out(fmt::format("{}: {} of {}, {} per rank, on {}\n", printable(arguments.recipe),
                        counted(static_cast<int64_t>(runs.size()), "run"), counted(grid.steps, "step"),
                        counted(study.threads, "thread"), counted(study.cores, "core")));
  std::vector<std::vector<ScaleResult>> found(different.size());
  size_t done = 0, failed = 0;
  const int interrupt = run_recipes(runs, 1, 0.0, [&](size_t run, const RecipeRunEnd& end) {
    const ScalePoint& point = points[different[run % different.size()].front()];
    const ScaleResult result = result_of(point, runs[run], end);
    found[run % different.size()].push_back(result);
    failed += end.error.empty() ? 0 : 1;
    write_out(fmt::format("[{}/{}] {}: {}\n", ++done, runs.size(), point.name(),
                          end.error.empty() ? fmt::format("{} samples/s", format_count(result.samples_per_s)) : end.error));
  });
  for (size_t run = 0; run < different.size(); ++run) {
    if (found[run].empty()) continue;  // interrupted before
    const ScaleResult middle = median_of_runs(found[run]);
    for (const size_t place : different[run]) {
      study.results[place] = middle;
      study.results[place].point = points[place];
    }
  }
  write_scale(arguments, study);
  if (interrupt != 0) return 128 + interrupt;
  if (failed > 0) {
    throw Error(
        fmt::format("{} failed; see the logs in {}", counted(static_cast<int64_t>(failed), "run"), printable(arguments.out)));
  }
  return 0;
}

}  // namespace

void add_scale(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("scale", "Measure how a recipe's speed scales with ranks, by layout");
  auto arguments = std::make_shared<ScaleArguments>();
  ScaleGrid& grid = arguments->grid;
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("-n,--ranks", grid.ranks, "Numbers of ranks: 1,2,4")
      ->required()
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--layouts", grid.layouts,
                   "dp, zero1, zero2, zero3 (or shard), pp, cp, tp, master or naive over all ranks; recipe: its own; or keys "
                   "joined by +, with N for the number of ranks: layout.pp=N+layout.schedule=gpipe. Default: recipe")
      ->delimiter(',');
  command->add_flag("--strong", arguments->strong, "Only strong scaling: the recipe's batch on any number of ranks");
  command->add_flag("--weak", arguments->weak,
                    "Only weak scaling: the batch grows with the ranks; the recipe's is for the fewest");
  command->add_option("--steps", grid.steps, "Steps per run; the first two are not counted")
      ->capture_default_str()
      ->check(CLI::Range(3, 1000000));
  command->add_option("--repeats", grid.repeats, "Runs of each point; reports their median and spread")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--out", arguments->out, "Folder for the results. Default: the recipe's name and \"-scale\"");
  command->footer(
      "Runs a separate `weft train` for each point, one after another. All use the\n"
      "same threads per rank, as many as the largest number of ranks allows. The final\n"
      "evaluation is not timed. Identical points, such as one rank in any layout, run\n"
      "once.\n"
      "\n"
      "Example:\n"
      "  weft scale recipes/fashion_mnist.toml -n 1,2 --layouts dp,shard,pp --steps 50");
  command->callback([arguments, &status] { status = run_scale(*arguments); });
}

}  // namespace weft
