// weft train: trains a recipe, alone, as N ranks that it starts, or as one rank of a world that something else started.
#include "weft/train/run/train.h"

#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands.h"
#include "weft/cli/console.h"
#include "weft/cli/output.h"
#include "weft/cli/output_files.h"
#include "weft/cli/rank_process.h"
#include "weft/cli/recipe_options.h"
#include "weft/cli/stop_signals.h"
#include "weft/launch/exit_status.h"
#include "weft/train/plan/make_plan.h"
#include "weft/train/recipe/read_recipe.h"
#include "weft/train/report/summary.h"
#include "weft/train/run/process_memory.h"

namespace weft {

namespace {

struct TrainArguments {
  std::string recipe;
  std::optional<int> num_ranks;
  std::vector<std::string> overrides;
  std::string summary, save, trace;
  std::optional<int64_t> trace_step;
  std::string resume;
  bool resume_anyway = false;
};

std::vector<std::string> rank_command(const TrainArguments& arguments) {
  std::vector<std::string> command = {own_path(), "train", arguments.recipe};
  const auto add = [&](const char* option, const std::string& value) {
    command.push_back(option);
    command.push_back(value);
  };
  for (const std::string& override : arguments.overrides) add("--set", override);
  if (!arguments.summary.empty()) add("--summary", arguments.summary);
  if (!arguments.save.empty()) add("--save", arguments.save);
  if (!arguments.trace.empty()) add("--trace", arguments.trace);
  if (arguments.trace_step) add("--trace-step", fmt::to_string(*arguments.trace_step));
  if (!arguments.resume.empty()) add("--resume", arguments.resume);
  if (arguments.resume_anyway) command.emplace_back("--resume-anyway");
  return command;
}

std::string run_heading(const Recipe& recipe, const ResolvedLayout& layout) {
  return fmt::format("{}: {} on {}, {} steps of {} samples, {}", printable(recipe.path), recipe.model.name, recipe.data.name,
                     recipe.run.steps, layout.global_batch, counted(layout.world, "rank"));
}

TrainOptions train_options(const TrainArguments& arguments) {
  return {.trace_path = arguments.trace,
          .trace_step = arguments.trace_step,
          .save_path = arguments.save,
          .resume_anyway = arguments.resume_anyway};
}

/// By whoever writes them, or starts the rank that does: other ranks may have another working folder, or none of these.
void check_outputs(const TrainArguments& arguments) {
  check_different_files({{"the recipe", arguments.recipe},
                         {"--summary", arguments.summary},
                         {"--save", arguments.save},
                         {"--trace", arguments.trace}});
  check_files(train_options(arguments));
  if (!arguments.summary.empty()) check_writable(arguments.summary);
}

/// One rank in this process; its exit status.
int train_here(const Recipe& recipe, const World& world, const TrainArguments& arguments) {
  survive(SIGPIPE);  // a log that nobody reads any more ends no training
  keep_and_reuse_memory();
  const bool leads = world.rank() == 0;
  if (leads) check_outputs(arguments);
  Console console;
  if (leads) console.line(run_heading(recipe, resolve(recipe, world.size())));
  TrainOptions options = train_options(arguments);
  options.on_step = [&](const StepReport& report) { console.step(report); };
  options.on_evaluation = [&](const EvaluationReport& report) { console.evaluation(report); };
  options.on_save = [&](const SaveReport& report) { console.save(report); };
  options.on_note = [&](const std::string& note) { console.note(note); };
  if (!recipe.save.folder.empty()) {
    note_stop_signals(recipe.save.deadline_s);
    options.stop_asked = stop_was_asked;
  }
  int status = 0;
  try {
    const FinalReport report = train(recipe, world, options);
    if (report.stopped) status = kSavedAndStopped;
    if (!leads) return status;
    if (!arguments.summary.empty()) write_file(arguments.summary, summary_json(report));
    console.finish(report);
    if (report.stopped) console.line("stopped, as it was asked to, and saved: the same command goes on");
  } catch (...) {
    console.end_line();
    throw;
  }
  console.check();
  return status;
}

LaunchOptions launch_options(const Recipe& recipe) {
  LaunchOptions options;
  if (recipe.save.folder.empty()) return options;
  constexpr double kToEnd = 5.0;  // on top of the ranks' own deadline
  options.interrupt_grace_s = recipe.save.deadline_s + kToEnd;
  options.stopped_status = kSavedAndStopped;
  return options;
}

int run_train(const TrainArguments& arguments) {
  Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  if (!arguments.resume.empty()) recipe.run.resume = arguments.resume;
  // Before ranks are started, so that a mistake is told once and at once.
  check_options(recipe, train_options(arguments));
  if (arguments.num_ranks) {
    check_plan(recipe, *arguments.num_ranks);
    check_outputs(arguments);
  }
  int here = 0;
  const int status = as_ranks(
      recipe, arguments.num_ranks, rank_command(arguments),
      [&](const World& world) { here = train_here(recipe, world, arguments); }, launch_options(recipe));
  return status != 0 ? status : here;
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("train", "Train the model that a recipe names");
  auto arguments = std::make_shared<TrainArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("-n,--ranks", arguments->num_ranks,
                      "Ranks to start on this machine. Left out: join the ranks that torchrun or a cluster started (RANK, "
                      "WORLD_SIZE, ...), or train alone");
  add_output(*command, "--summary", arguments->summary, "Write what came of it to this JSON file");
  add_output(*command, "--save", arguments->save, "Write the final weights to this .safetensors file");
  CLI::Option* trace =
      add_output(*command, "--trace", arguments->trace,
                 "Write when each instruction of a step ran to this file, for ui.perfetto.dev or chrome://tracing");
  command
      ->add_option("--trace-step", arguments->trace_step,
                   "Which step, counted from 1. Left out: the third, or the last of fewer")
      ->needs(trace)
      ->check(CLI::PositiveNumber);
  command->add_option(
      "--resume", arguments->resume,
      "\"auto\": go on from the newest checkpoint in save.folder, if there is one; \"none\": begin anew; or the "
      "checkpoint to go on from. Instead of run.resume");
  command->add_flag("--resume-anyway", arguments->resume_anyway,
                    "Go on also where model, data, batch, optimizer or seed have changed, as far as the checkpoint fits");
  command->footer(
      "The recipe's keys are in docs/recipes.md. Ctrl-C ends all ranks, a second one at once.\n"
      "\n"
      "Examples:\n"
      "  weft train recipes/fashion_mnist.toml -n 2\n"
      "  weft train recipes/gpt.toml -n 2 --set data.path=book.txt --set run.steps=1000 --save gpt.safetensors\n"
      "  torchrun --nproc-per-node 2 --no-python weft train recipes/gpt.toml");
  command->callback([arguments, &status] { status = run_train(*arguments); });
}

}  // namespace weft
