// weft study: trains a recipe at many batch sizes and learning rates, and reports how many steps each needs to a target.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/input_file.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/output.h"
#include "weft/cli/ranks/as_ranks.h"
#include "weft/cli/ranks/recipe_runs.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/run_target.h"
#include "weft/study/read_results.h"
#include "weft/study/study_report.h"
#include "weft/study/study_settings.h"

namespace weft {

namespace {

struct StudyArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string batches, rates;
  StudyGrid grid;
  int side_by_side = 1;
  std::string out;
};

/// Compares the folder's settings with these, or writes them if it has none. The folder is locked while the result lives.
FileDescriptor hold_study_folder(const StudyArguments& arguments, const std::string& settings) {
  FileDescriptor folder = hold_results_folder(arguments.out);
  const std::string path = arguments.out + "/settings.json";
  constexpr int64_t kLongestSettings = 1 << 20;
  if (std::filesystem::exists(path)) {
    const auto changes = settings_changes(read_text_file("the study's settings", path, kLongestSettings), settings, path);
    if (!changes.empty()) {
      throw InputError(fmt::format("{} holds a study with other settings: {}; name another --out", printable(arguments.out),
                                   fmt::join(changes, "; ")));
    }
  } else {
    write_file(path, settings);
  }
  return folder;
}

RecipeRun run_of(const StudyArguments& arguments, const Recipe& recipe, const StudyPoint& point) {
  RecipeRun run{.recipe = arguments.recipe,
                .overrides = arguments.overrides,
                .ranks = arguments.grid.ranks,
                .threads = run_threads(arguments.side_by_side * arguments.grid.ranks),
                .summary = summary_path(arguments.out, point),
                .log = log_path(arguments.out, point)};
  run.overrides.insert(run.overrides.end(), point.overrides.begin(), point.overrides.end());
  if (!recipe.run.folder.empty()) run.overrides.push_back(fmt::format("run.folder={}/{}", arguments.out, point.name()));
  if (!recipe.save.folder.empty()) run.overrides.push_back(fmt::format("save.folder={}/{}", arguments.out, point.name()));
  return run;
}

void write_study(const StudyArguments& arguments, const Study& study) {
  write_out("\n" + study_table(study));
  write_file(arguments.out + "/" + kStudyFile, study_json(study));
  const std::string chart = study_chart(study);
  if (!chart.empty()) write_file(arguments.out + "/study.svg", chart);
  write_out(fmt::format("in {}: study.json{}, and each point's summary and log\n", printable(arguments.out),
                        chart.empty() ? "" : ", study.svg"));
}

void print_heading(const StudyArguments& arguments, size_t points, size_t to_do) {
  write_out(fmt::format("{}: {} to {}, {} done; {} on {} each, {} at once, {} per rank{}\n", printable(arguments.recipe),
                        counted(static_cast<int64_t>(points), "point"), arguments.grid.target, points - to_do, to_do,
                        counted(arguments.grid.ranks, "rank"), arguments.side_by_side,
                        counted(run_threads(arguments.side_by_side * arguments.grid.ranks), "thread"),
                        crowding_text(arguments.side_by_side * arguments.grid.ranks)));
}

int run_study(StudyArguments arguments) {
  StudyGrid& grid = arguments.grid;
  grid.batches = parse_whole_progression(arguments.batches);
  if (!arguments.rates.empty()) grid.rates = parse_progression(arguments.rates);
  const Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  if (arguments.out.empty()) arguments.out = std::filesystem::path(arguments.recipe).stem().string() + "-study";
  if (grid.target.empty()) grid.target = recipe.run.target;
  if (!parse_run_target(grid.target))
    throw InputError(fmt::format("{}: no target; add run.target, or --target", arguments.recipe));
  Study study{.recipe = arguments.recipe, .target = grid.target, .ranks = grid.ranks};
  const std::vector<StudyPoint> points = study_points(arguments.recipe, arguments.overrides, grid);
  const FileDescriptor held = hold_study_folder(arguments, study_settings(recipe, grid));
  std::vector<RecipeRun> runs;
  std::vector<size_t> places;  // index of each run's point
  for (const StudyPoint& point : points) {
    study.results.push_back(read_point(point, arguments.out));
    if (study.results.back().outcome != PointOutcome::missing) continue;
    places.push_back(study.results.size() - 1);
    runs.push_back(run_of(arguments, recipe, point));
  }
  print_heading(arguments, points.size(), runs.size());
  size_t done = 0;
  const auto on_end = [&](size_t run, const RecipeRunEnd& end) {
    PointResult& result = study.results[places[run]];
    if (end.diverged) write_file(runs[run].summary, diverged_summary(end.error));
    result = end.error.empty() || end.diverged
                 ? read_point(result.point, arguments.out)
                 : PointResult{.point = result.point, .outcome = PointOutcome::failed, .reason = end.error};
    write_out(fmt::format("[{}/{}] {}, batch {}, lr {}: {}\n", ++done, runs.size(), result.point.optimizer, result.point.batch,
                          result.point.rate, outcome_text(result)));
  };
  const int interrupt =
      run_recipes(runs, arguments.side_by_side, recipe.save.folder.empty() ? 0.0 : recipe.save.deadline_s, on_end);
  write_study(arguments, study);
  if (interrupt != 0) {
    write_out("ended by a signal; the same command continues with the remaining points\n");
    return 128 + interrupt;
  }
  const auto failed = std::count_if(study.results.begin(), study.results.end(),
                                    [](const PointResult& result) { return result.outcome == PointOutcome::failed; });
  if (failed == 0) return 0;
  throw Error(fmt::format("{} failed; see the logs in {}; the same command runs them again", counted(failed, "point"),
                          printable(arguments.out)));
}

}  // namespace

void add_study(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("study", "Count steps to a target at many batch sizes and learning rates");
  auto arguments = std::make_shared<StudyArguments>();
  StudyGrid& grid = arguments->grid;
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("--batch", arguments->batches, "Global batches: 32,64,128, or 32,64,...,8192 for doublings")->required();
  command->add_option("--lr", arguments->rates, "Learning rates to try at each batch: 0.01,0.03,0.1. Default: the recipe's");
  command->add_option("--optimizer", grid.optimizers, "Optimizers, one series each: sgd,lars. Default: the recipe's")
      ->delimiter(',');
  command->add_option("--target", grid.target, "\"accuracy >= 0.9\" or \"loss <= 2.1\". Default: run.target");
  command->add_option("-n,--ranks", grid.ranks, "Ranks per point")->capture_default_str()->check(CLI::Range(1, 4096));
  command->add_option("--side-by-side", arguments->side_by_side, "Points to train at once, sharing the cores")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_option("--steps-limit", grid.steps_limit, "Maximum steps per point. Default: run.steps")
      ->check(CLI::Range(1, 1000000000));
  command->add_option("--samples-limit", grid.samples_limit, "Maximum samples per point")->check(CLI::Range(1, 1000000000));
  command
      ->add_option("--evaluate-samples", grid.evaluate_samples,
                   "Samples between evaluations, the same for every batch: the resolution of the result. Default: the recipe's")
      ->check(CLI::Range(1, 1000000000));
  command->add_option("--micro", grid.micro, "Maximum samples per forward, to fit memory. Default: batch.micro, if set")
      ->check(CLI::Range(1, 1000000000));
  command->add_option("--out", arguments->out, "Folder for the results. Default: the recipe's name and \"-study\"");
  command->footer(
      "Each point trains the recipe with its own batch.global, optimizer.lr and\n"
      "optimizer.name until the target. Started again in the same folder, a study\n"
      "continues with the remaining points. Ctrl-C ends it.\n"
      "\n"
      "Example:\n"
      "  weft study recipes/fashion_mnist.toml --batch 32,64,...,8192 \\\n"
      "    --lr 0.01,0.03,0.1 --optimizer sgd,lars \\\n"
      "    --target \"accuracy >= 0.9\" --evaluate-samples 6400");
  command->callback([arguments, &status] { status = run_study(*arguments); });
}

}  // namespace weft
