// weft train: trains a recipe, alone, as N ranks that it starts, or as one rank of a world that something else started.
#include "weft/train/run/train.h"

#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/run_board.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands.h"
#include "weft/cli/console.h"
#include "weft/cli/host_options.h"
#include "weft/cli/launch_ranks.h"
#include "weft/cli/output.h"
#include "weft/cli/output_files.h"
#include "weft/cli/own_path.h"
#include "weft/cli/rank_counts.h"
#include "weft/cli/recipe_options.h"
#include "weft/cli/stop_signals.h"
#include "weft/comm/rank_environment.h"
#include "weft/launch/exit_status.h"
#include "weft/train/plan/make_plan.h"
#include "weft/train/recipe/read_recipe.h"
#include "weft/train/report/summary.h"
#include "weft/train/run/from_recipe.h"
#include "weft/train/run/process_memory.h"

namespace weft {

namespace {

struct TrainArguments {
  std::string recipe;
  std::string ranks;  ///< -n: "4" or "2:4"; empty: not told
  std::optional<int64_t> restarts;
  double grow_after_s = 600.0;
  HostOptions hosts;
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
  if (arguments.restarts) add("--restarts", fmt::to_string(*arguments.restarts));
  if (!arguments.resume.empty()) add("--resume", arguments.resume);
  if (arguments.resume_anyway) command.emplace_back("--resume-anyway");
  return command;
}

/// What epochs come to is known, and told, once the data is open.
std::string run_heading(const Recipe& recipe, const ResolvedLayout& layout) {
  const std::string length =
      recipe.run.steps ? counted(*recipe.run.steps, "step") : run_length_text(length_of(recipe.run)) + " in steps";
  const std::string ramp = recipe.batch.ramp.empty() ? "" : fmt::format("{} to ", recipe.batch.ramp.front().global_batch);
  return fmt::format("{}: {} on {}, {} of {}{} samples, {}", printable(recipe.path), recipe.model.name, recipe.data.name,
                     length, ramp, layout.global_batch, counted(layout.world, "rank"));
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
  const std::unique_ptr<RunBoard> board = RunBoard::from_environment();
  if (recipe.save.memory_every && (!board || board->most_ranks() == 0)) {
    throw InputError(
        "save.memory_every keeps copies in the memory of the launcher that starts ranks again: start them by "
        "weft train -n with --restarts (or run.restarts), or leave it out");
  }
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
  options.on_note = [&](const std::string& note) { console.note(printable(note)); };
  options.board = board.get();
  if (!recipe.save.folder.empty()) {
    note_stop_signals(recipe.save.deadline_s, leads);
    options.stop_asked = stop_was_asked;
  }
  int status = 0;
  try {
    const FinalReport report = train(recipe, world, options);
    if (report.stopped) status = kSavedAndStopped;
    if (!leads) return status;
    if (!arguments.summary.empty()) write_file(arguments.summary, summary_json(report));
    if (board && board->is_growing() && report.stopped) {
      console.line(fmt::format("saved after step {}, to go on on more ranks", report.steps_done));
    } else {
      console.finish(report);
      if (report.stopped) console.line("stopped, as it was asked to, and saved: the same command goes on");
    }
  } catch (...) {
    console.end_line();
    throw;
  }
  console.check();
  return status;
}

LaunchOptions launch_options(const Recipe& recipe, const TrainArguments& arguments) {
  LaunchOptions options;
  options.command = rank_command(arguments);
  if (recipe.run.restarts > 0) options.end_signal = SIGKILL;  // nothing is lost, and the next start is waiting
  if (recipe.save.folder.empty()) return options;
  constexpr double kToEnd = 5.0;  // on top of the ranks' own deadline
  options.interrupt_grace_s = recipe.save.deadline_s + kToEnd;
  options.stopped_status = kSavedAndStopped;
  return options;
}

bool can_run_on(const Recipe& recipe, int ranks) {
  try {
    check_plan(recipe, ranks);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// What restarts are allowed where ranks are started, on one host or several.
RestartOptions restart_options(const Recipe& recipe, const TrainArguments& arguments, const RankCounts& counts,
                               const HostPlan& plan) {
  RestartOptions options{.limits = {.restarts = static_cast<int>(recipe.run.restarts)}, .grow_after_s = arguments.grow_after_s};
  options.limits.fits = [recipe](int ranks) { return can_run_on(recipe, ranks); };
  options.limits.least_ranks = counts.least;
  options.limits.most_ranks = counts.most;
  options.keeps_state = recipe.run.restarts > 0 && static_cast<bool>(recipe.save.memory_every);
  if (plan.kind == HostPlan::Kind::head) {  // what the hosts bear, each a number of its own
    options.limits.most_ranks = options.limits.least_ranks = 0;
    options.check = [recipe](int ranks) { check_plan(recipe, ranks); };
  }
  return options;
}

/// Starts ranks here or on several hosts, and watches them.
int start_ranks(const Recipe& recipe, const TrainArguments& arguments, const RankCounts& counts, const HostPlan& plan) {
  const bool restarts = recipe.run.restarts > 0;
  if (!restarts && counts.least < counts.most) {
    throw InputError(fmt::format("-n {}: fewer ranks are for restarts; add --restarts", arguments.ranks));
  }
  if (!restarts && plan.kind == HostPlan::Kind::head && plan.nodes.least < plan.nodes.most) {
    throw InputError(fmt::format("--nodes {}: fewer hosts are for restarts; add --restarts", arguments.hosts.nodes));
  }
  if (plan.kind != HostPlan::Kind::one && recipe.save.memory_every) {
    throw InputError(
        "save.memory_every keeps copies in the memory of one host, which ranks of others cannot read; leave it out, and save "
        "to a folder that all hosts have");
  }
  const LaunchPlace place{.plan = plan, .options = arguments.hosts, .local_ranks = counts.most};
  if (plan.kind != HostPlan::Kind::one) check_rank_total(place, counts.most);
  LaunchOptions options = launch_options(recipe, arguments);
  options.num_ranks = counts.most;
  return launch_ranks(std::move(options), restart_options(recipe, arguments, counts, plan), place);
}

int run_train(const TrainArguments& arguments) {
  Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  if (!arguments.resume.empty()) recipe.run.resume = arguments.resume;
  if (arguments.restarts) recipe.run.restarts = *arguments.restarts;
  // Before ranks are started, so that a mistake is told once and at once.
  check_options(recipe, train_options(arguments));
  const HostPlan plan = host_plan(arguments.hosts, !arguments.ranks.empty());
  const bool several = plan.kind != HostPlan::Kind::one;
  const bool joins = !several && arguments.ranks.empty() && rank_environment().has_value();
  const RankCounts counts = rank_counts(arguments.ranks, plan);
  if (!arguments.ranks.empty() || several) {
    // With --nodes other hosts may bear other numbers of ranks: the head checks once all have told theirs.
    if (!several || plan.kind == HostPlan::Kind::ssh) check_plan(recipe, counts.most);
    if (plan.kind != HostPlan::Kind::agent) check_outputs(arguments);
  }
  if (several || (!joins && recipe.run.restarts > 0) || counts.most > 1 || counts.least < counts.most) {
    return start_ranks(recipe, arguments, counts, plan);
  }
  return train_here(recipe, arguments.ranks.empty() ? World::from_environment(timeout_of(recipe)) : World(), arguments);
}

void add_result_options(CLI::App& command, TrainArguments& arguments) {
  add_output(command, "--summary", arguments.summary, "Write what came of it to this JSON file");
  add_output(command, "--save", arguments.save,
             "Write the final weights, with optimizer.ema their average, to this .safetensors file");
  CLI::Option* trace =
      add_output(command, "--trace", arguments.trace,
                 "Write when each instruction of a step ran to this file, for ui.perfetto.dev or chrome://tracing");
  command
      .add_option("--trace-step", arguments.trace_step, "Which step, counted from 1. Left out: the third, or the last of fewer")
      ->needs(trace)
      ->check(CLI::PositiveNumber);
}

/// How a run that ended goes on.
void add_restart_options(CLI::App& command, TrainArguments& arguments) {
  command
      .add_option("--restarts", arguments.restarts,
                  "How often ranks that fail are started again, from the newest state. Instead of run.restarts")
      ->check(CLI::Range(0, 1000000));
  command
      .add_option("--grow-after", arguments.grow_after_s,
                  "With -n 2:4, seconds on fewer ranks until all are tried again; twice as long each time")
      ->capture_default_str()
      ->check(CLI::Range(1e-3, 1e9));
  command.add_option("--resume", arguments.resume,
                     "\"auto\": go on from the newest checkpoint in save.folder, if there is one; \"none\": begin anew; or the "
                     "checkpoint to go on from. Instead of run.resume");
  command.add_flag("--resume-anyway", arguments.resume_anyway,
                   "Go on also where model, data, batch, optimizer or seed have changed, as far as the checkpoint fits");
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("train", "Train the model that a recipe names");
  auto arguments = std::make_shared<TrainArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command
      ->add_option("-n,--ranks", arguments->ranks,
                   "Ranks to start: on this machine, with --nodes on each, with --hosts in all; with --restarts also the "
                   "fewest and the most, as in 2:4. Left out: join the ranks that torchrun or a cluster started (RANK, "
                   "WORLD_SIZE, ...), or train alone")
      ->check(ranks_misspelt);
  add_result_options(*command, *arguments);
  add_restart_options(*command, *arguments);
  add_host_options(*command, arguments->hosts);
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
