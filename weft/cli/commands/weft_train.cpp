// weft train: trains a recipe alone, as N ranks that it starts, or as one rank of a world that something else started.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/port_range.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/host_options.h"
#include "weft/cli/options/number_range.h"
#include "weft/cli/options/rank_counts.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/output_files.h"
#include "weft/cli/ranks/launch_ranks.h"
#include "weft/cli/ranks/recorded_end.h"
#include "weft/cli/ranks/train_here.h"
#include "weft/comm/rank_environment.h"
#include "weft/launch/exit_status.h"
#include "weft/launch/ranks_that_fit.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/report/records/record.h"
#include "weft/train/run/options_of_recipe.h"

namespace weft {

namespace {

std::vector<std::string> rank_command(const TrainArguments& arguments) {
  std::vector<std::string> command = {this_executable(), "train", arguments.recipe};
  const auto add = [&](const char* option, const std::string& value) {
    command.push_back(option);
    command.push_back(value);
  };
  for (const std::string& override : arguments.overrides) add("--set", override);
  if (!arguments.summary.empty()) add("--summary", arguments.summary);
  if (!arguments.save.empty()) add("--save", arguments.save);
  if (!arguments.trace.empty()) add("--trace", arguments.trace);
  if (arguments.trace_step) add("--trace-step", fmt::to_string(*arguments.trace_step));
  if (!arguments.profile.empty()) add("--profile", arguments.profile);
  if (arguments.restarts) add("--restarts", fmt::to_string(*arguments.restarts));
  if (!arguments.resume.empty()) add("--resume", arguments.resume);
  if (arguments.resume_anyway) command.emplace_back("--resume-anyway");
  return command;
}

LaunchOptions launch_options(const Recipe& recipe, const TrainArguments& arguments) {
  LaunchOptions options;
  options.command = rank_command(arguments);
  options.done_status = kOutputLost;
  if (recipe.run.restarts > 0) options.end_signal = SIGKILL;  // no state is lost, and the next start is waiting
  if (!records_folder(recipe).empty()) options.evidence_s = 6.0;
  if (recipe.save.folder.empty()) return options;
  constexpr double kToEnd = 5.0;  // in addition to the ranks' own deadline
  options.interrupt_grace_s = recipe.save.deadline_s + kToEnd;
  options.stopped_status = kSavedAndStopped;
  options.flawed_status = kNotCopied;
  return options;
}

/// Limits on restarts where this command starts ranks, on one or several hosts.
RestartOptions restart_options(const Recipe& recipe, const TrainArguments& arguments, const RankCounts& counts,
                               const HostPlan& plan, const std::shared_ptr<RanksThatFit>& fit) {
  RestartOptions options{.limits = {.restarts = static_cast<int>(recipe.run.restarts)}, .grow_after_s = arguments.grow_after_s};
  options.limits.fits = [fit](int ranks) { return fit->ask(ranks); };
  options.limits.least_ranks = counts.least;
  options.limits.most_ranks = counts.most;
  options.keeps_state = recipe.run.restarts > 0 && static_cast<bool>(recipe.save.memory_every);
  if (plan.kind == HostPlan::Kind::head) {  // as many as the hosts take, which may differ between hosts
    options.limits.most_ranks = options.limits.least_ranks = 0;
    options.check = [fit](int ranks) { fit->check(ranks); };
  }
  return options;
}

/// Starts ranks here or on several hosts and watches them.
int start_ranks(const Recipe& recipe, const TrainArguments& arguments, const RankCounts& counts, const HostPlan& plan) {
  const bool restarts = recipe.run.restarts > 0;
  if (!restarts && counts.least < counts.most) {
    throw InputError(fmt::format("-n {}: a range of ranks needs --restarts", arguments.ranks));
  }
  if (!restarts && plan.kind == HostPlan::Kind::head && plan.nodes.least < plan.nodes.most) {
    throw InputError(fmt::format("--nodes {}: a range of hosts needs --restarts", arguments.hosts.nodes));
  }
  if (plan.kind != HostPlan::Kind::one && recipe.save.memory_every) {
    throw InputError(
        "save.memory_every keeps copies in one host's memory, which ranks on other hosts cannot read; leave it out, and save "
        "to a folder that all hosts share");
  }
  LaunchPlace place{.plan = plan, .options = arguments.hosts, .local_ranks = counts.most};
  place.told = [folder = records_folder(recipe), began_s = unix_time_s()](const LaunchOutcome& outcome) {
    return recorded_end(folder, began_s, outcome);
  };
  if (plan.kind != HostPlan::Kind::one) check_rank_total(place, counts.most);
  LaunchOptions options = launch_options(recipe, arguments);
  options.num_ranks = counts.most;
  const auto fit = std::make_shared<RanksThatFit>([recipe](int ranks) { check_plan(recipe, ranks); });
  int status = 1;
  try {
    status = launch_ranks(std::move(options), restart_options(recipe, arguments, counts, plan, fit), place);
  } catch (const std::exception& error) {
    if (!fit->is_busy()) throw;
    fmt::print(stderr, "weft: {}\n", printable(error.what()));
  }
  if (fit->is_busy()) leave(status);  // nobody waits for the answer any more
  return status;
}

/// Rejects options that would have no effect here. `joins`: something else has started this rank.
void refuse_unread(const TrainArguments& arguments, const Recipe& recipe, const RankCounts& counts, const HostPlan& plan,
                   bool joins) {
  const HostOptions& hosts = arguments.hosts;
  const bool has_ranks = !arguments.ranks.empty() || plan.kind != HostPlan::Kind::one;
  if (hosts.has("--prefix") && !has_ranks && (joins || recipe.run.restarts == 0)) {
    throw InputError("--prefix applies to ranks started from here: add -n, or leave it out");
  }
  const bool varies = counts.least < counts.most || plan.nodes.least < plan.nodes.most;
  if (hosts.has("--grow-after") && (!varies || recipe.save.folder.empty())) {
    throw InputError(varies ? "--grow-after: the run must save before it tries more ranks; set save.folder, or leave it out"
                            : "--grow-after needs a range of ranks, as in -n 2:4 or --nodes 2:4");
  }
  if (hosts.has("--restarts") && joins && !is_rank_of_launcher()) {
    throw InputError("--restarts applies to ranks that weft starts; something else started these and must restart them");
  }
  const bool begins = recipe.run.resume == "none" || (recipe.run.resume == "auto" && recipe.save.folder.empty());
  if (arguments.resume_anyway && begins) {
    throw InputError("--resume-anyway: there is nothing to resume from; set save.folder, or name a checkpoint with --resume");
  }
}

int run_train(TrainArguments& arguments) {
  const HostOptions& hosts = arguments.hosts;
  if (!arguments.ranks.empty() || !hosts.hosts.empty() || !hosts.host_file.empty()) leave_outer_place(hosts);
  Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  arguments.hosts.health.run = std::filesystem::path(arguments.recipe).stem().string();
  use_ports(recipe.run.ports);
  if (!arguments.resume.empty()) recipe.run.resume = arguments.resume;
  if (arguments.restarts) recipe.run.restarts = *arguments.restarts;
  // Before ranks start, so that a mistake is reported at once, and once.
  check_options(recipe, train_options(arguments));
  const HostPlan plan = host_plan(arguments.hosts, !arguments.ranks.empty());
  const bool several = plan.kind != HostPlan::Kind::one;
  const bool joins = !several && arguments.ranks.empty() && rank_environment().has_value();
  const RankCounts counts = rank_counts(arguments.ranks, plan);
  refuse_unread(arguments, recipe, counts, plan, joins);
  if (!arguments.ranks.empty() || several) {
    // With --nodes other hosts may have other numbers of ranks: the head checks once all have joined.
    if (!several || plan.kind == HostPlan::Kind::ssh) check_plan(recipe, counts.most);
    if (plan.kind != HostPlan::Kind::agent) check_outputs(arguments, recipe);
  }
  const bool is_launched = !joins && (recipe.run.restarts > 0 || arguments.hosts.prefix);
  if (several || is_launched || counts.most > 1) {
    return start_ranks(recipe, arguments, counts, plan);
  }
  return train_here(recipe, arguments.ranks.empty() ? World::from_environment(timeout_of(recipe)) : World(), arguments);
}

void add_result_options(CLI::App& command, TrainArguments& arguments) {
  add_output(command, "--summary", arguments.summary, "Write the results to this JSON file");
  add_output(command, "--save", arguments.save,
             "Write the final weights (with optimizer.ema, their average) to this .safetensors file");
  CLI::Option* trace =
      add_output(command, "--trace", arguments.trace,
                 "Write a timeline of one step's instructions to this file, for ui.perfetto.dev or chrome://tracing");
  command.add_option("--trace-step", arguments.trace_step, "Step to trace, from 1. Default: the third, or the last if fewer")
      ->needs(trace)
      ->check(positive_count());
  command.add_option(
      "--profile", arguments.profile,
      "Profile this step, or steps such as 5-7: operators, critical path, waits, a timeline of all ranks; in the "
      "run's folder");
}

/// Options for how a run continues after it ended.
void add_restart_options(CLI::App& command, TrainArguments& arguments) {
  command
      .add_option("--restarts", arguments.restarts,
                  "Maximum restarts of failed ranks, from the newest state. Replaces run.restarts")
      ->check(CLI::Range(0, 1000000));
  command
      .add_option("--grow-after", arguments.grow_after_s,
                  "With -n 2:4: seconds on fewer ranks before trying all again; doubles each time")
      ->capture_default_str()
      ->check(number_range(1e-3, 1e9));
  command.add_option("--resume", arguments.resume,
                     "\"auto\": resume from the newest checkpoint in save.folder, if any; \"none\": start over; or a "
                     "checkpoint to resume from. Replaces run.resume");
  command.add_flag("--resume-anyway", arguments.resume_anyway,
                   "Resume even if model, data, batch, optimizer or seed changed, as far as the checkpoint fits");
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("train", "Train the model of a recipe");
  auto arguments = std::make_shared<TrainArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command
      ->add_option("-n,--ranks", arguments->ranks,
                   "Ranks to start: on this machine, with --nodes on each, with --hosts in all; with --restarts also fewest "
                   "and most, as in 2:4. Default: join the ranks that torchrun or a cluster started (RANK, WORLD_SIZE, ...), "
                   "or train alone")
      ->check(ranks_misspelt);
  add_result_options(*command, *arguments);
  add_restart_options(*command, *arguments);
  add_host_options(*command, arguments->hosts);
  command->footer(
      "docs/recipes.md lists the recipe's keys. Ctrl-C and SIGTERM end all ranks; with\n"
      "save.folder they save first. A second signal ends them at once.\n"
      "\n"
      "Examples:\n"
      "  weft train recipes/fashion_mnist.toml -n 2\n"
      "  weft train recipes/gpt.toml -n 2 --set data.path=book.txt \\\n"
      "    --set run.steps=1000 --save gpt.safetensors\n"
      "  torchrun --nproc-per-node 2 --no-python weft train recipes/gpt.toml");
  command->callback([arguments, &status] { status = run_train(*arguments); });
}

}  // namespace weft
