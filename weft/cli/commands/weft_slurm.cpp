// weft slurm: writes the sbatch script that trains a recipe on a cluster, for a person to read, change and submit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/host_options.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/output_files.h"
#include "weft/launch/slurm/batch_script.h"
#include "weft/launch/slurm/slurm_time.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft {

namespace {

struct SlurmArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  BatchScript script;
  std::optional<int> tasks_per_node, ranks;
  std::string time, partition, account, qos, memory;
  std::string gpus_per_node;  ///< "8", or "a100:8"
  std::vector<std::string> further;
  std::optional<int> signal_before_s;
  HealthOptions health;
  std::string out = "-";
};

/// A run that is started again must go on, and so must have saved.
void check_goes_on(const Recipe& recipe, bool launcher) {
  const std::string where = printable(recipe.path);
  if (recipe.save.folder.empty()) {
    throw InputError(
        fmt::format("{}: save.folder is not set, so a job whose time is over would begin anew; set it to a folder "
                    "that all nodes see (--set save.folder=...)",
                    where));
  }
  check_goes_on_by_itself(recipe, "a job");
  if (!launcher && recipe.save.memory_every) {
    throw InputError(
        fmt::format("{}: save.memory_every keeps copies in the memory of a launcher, which tasks of SLURM's do not have; ask "
                    "for -n RANKS in place of --ntasks-per-node, or leave it out",
                    where));
  }
}

/// By how much the signal comes before the job's end: what the recipe allows for saving, and some to spare.
int signal_before_s(const SlurmArguments& arguments, const Recipe& recipe) {
  constexpr int kToSpare_s = 60;
  const int to_save_s = static_cast<int>(std::ceil(std::min(recipe.save.deadline_s, 60000.0)));
  const int before_s = arguments.signal_before_s.value_or(to_save_s + kToSpare_s);
  if (before_s < to_save_s) {
    throw InputError(fmt::format("--signal-before {}: save.deadline_s = {} s, which a run may take for saving, is longer",
                                 before_s, recipe.save.deadline_s));
  }
  const auto whole_s = arguments.time.empty() ? std::nullopt : slurm_seconds(arguments.time);
  if (whole_s && before_s * 2 > *whole_s) {
    throw InputError(
        fmt::format("--time {}: the job would be told to save {} s before its end, which is most of it; give it more, "
                    "or less to --signal-before and save.deadline_s",
                    printable(arguments.time), before_s));
  }
  return before_s;
}

void add_options(const SlurmArguments& arguments, std::vector<std::string>& options) {
  const auto add = [&options](const char* name, const std::string& value) {
    if (!value.empty()) options.push_back(fmt::format("{}={}", name, value));
  };
  add("--gpus-per-node", arguments.gpus_per_node);
  add("--mem", arguments.memory);
  add("--time", arguments.time);
  add("--partition", arguments.partition);
  add("--account", arguments.account);
  add("--qos", arguments.qos);
  for (const std::string& option : arguments.further) {
    if (!option.starts_with("-")) throw InputError(fmt::format("--sbatch {}: not an option of sbatch", shortened(option)));
    options.push_back(option);
  }
}

/// What a rank runs, or the launcher of a node.
std::vector<std::string> train_command(const SlurmArguments& arguments) {
  // An image has its own; elsewhere the nodes see the file that runs here, as they see the recipe.
  std::vector<std::string> command = {arguments.script.image.empty() ? this_executable() : "weft", "train"};
  if (arguments.ranks) {
    command.insert(command.end(), {"-n", std::to_string(*arguments.ranks)});
    if (arguments.script.restarts > 0) command.insert(command.end(), {"--restarts", std::to_string(arguments.script.restarts)});
  }
  if (const HealthOptions& health = arguments.health; health.port != 0) {
    command.insert(command.end(), {"--health-port", std::to_string(health.port), "--health-address", health.address});
    if (health.stalled_s > 0.0) command.insert(command.end(), {"--health-stalled", fmt::to_string(health.stalled_s)});
  }
  for (const std::string& override : arguments.overrides) command.insert(command.end(), {"--set", override});
  command.push_back(arguments.recipe);
  return command;
}

std::string default_name(const std::string& recipe) {
  const std::string stem = std::filesystem::path(recipe).stem().string();
  return stem.empty() ? "weft" : stem;
}

void write_slurm_script(const SlurmArguments& arguments) {
  const Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  check_goes_on(recipe, arguments.ranks.has_value());
  BatchScript script = arguments.script;
  script.launcher = arguments.ranks.has_value();
  script.ranks_per_node = arguments.ranks ? *arguments.ranks : arguments.tasks_per_node.value_or(1);
  const int64_t ranks = int64_t{script.nodes} * script.ranks_per_node;
  check_plan(recipe, static_cast<int>(ranks));
  script.title = fmt::format("Trains {} on {} with {} each. Submit it by sbatch; change it as you like.",
                             printable(recipe.path), counted(script.nodes, "node"), counted(script.ranks_per_node, "rank"));
  script.folder = std::filesystem::current_path().string();
  if (script.job_name.empty()) script.job_name = default_name(arguments.recipe);
  // A launcher's ranks share what its task gets, of which SLURM would give one core.
  if (script.launcher && !script.cpus_per_task) script.cpus_per_task = script.ranks_per_node;
  script.gpus = !arguments.gpus_per_node.empty();
  script.signal_before_s = signal_before_s(arguments, recipe);
  add_options(arguments, script.options);
  script.command = train_command(arguments);
  const std::string text = batch_script(script);
  if (arguments.out == "-") return write_out(text);
  check_different_files({{"the recipe", arguments.recipe}, {"-o", arguments.out}});
  write_file(arguments.out, text);
}

void add_resources(CLI::App& command, SlurmArguments& arguments) {
  BatchScript& script = arguments.script;
  command.add_option("-N,--nodes", script.nodes, "Nodes")->required()->check(CLI::Range(1, 1 << 17));
  CLI::Option* tasks = command.add_option("--ntasks-per-node", arguments.tasks_per_node,
                                          "Ranks a node, each a task of its own. Left out: 1, or what -n says");
  tasks->check(CLI::Range(1, 4096));
  command.add_option("-n,--ranks", arguments.ranks, "Ranks a node, started by one task there: instead of --ntasks-per-node")
      ->excludes(tasks)
      ->check(CLI::Range(1, 4096));
  command.add_option("--cpus-per-task", script.cpus_per_task, "Cores of a task")->check(CLI::Range(1, 1 << 16));
  command.add_option("--gpus-per-node", arguments.gpus_per_node, "GPUs of a node: 8, or a100:8");
  command.add_option("--mem", arguments.memory, "Memory of a node: 200G");
  command.add_option("--time", arguments.time, "Of one job: minutes, 4:00:00 or 2-12:00:00. Left out: the partition's");
  command.add_option("-p,--partition", arguments.partition, "Partition");
  command.add_option("-A,--account", arguments.account, "Account");
  command.add_option("--qos", arguments.qos, "Quality of service");
  command.add_option("--sbatch", arguments.further, "Another option of sbatch: --sbatch=--exclusive. May be repeated")
      ->allow_extra_args(false);
}

}  // namespace

void add_slurm(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("slurm", "Write the sbatch script that trains a recipe on a SLURM cluster");
  auto arguments = std::make_shared<SlurmArguments>();
  BatchScript& script = arguments->script;
  add_recipe(*command, arguments->recipe, arguments->overrides);
  add_resources(*command, *arguments);
  command->add_option("--job-name", script.job_name, "Left out: the recipe's name");
  command->add_option("--log", script.log, "Where output goes, in SLURM's patterns. Left out: JOBNAME-JOBID.log");
  command
      ->add_option("--signal-before", arguments->signal_before_s,
                   "Seconds before the end of its time at which a job is told to save. Left out: save.deadline_s and a minute")
      ->check(CLI::Range(1, 65535));
  CLI::Option* requeues =
      command->add_option("--requeues", script.requeues, "How often at most a job whose time was over is requeued to go on")
          ->capture_default_str()
          ->check(CLI::Range(0, 1000000));
  command
      ->add_option("--array", script.array,
                   "That many jobs one after another, each of which goes on, where clusters do not let a job requeue itself")
      ->excludes(requeues)
      ->check(CLI::Range(1, 100000));
  command->add_option("--restarts", script.restarts, "How often a training that fails is started again within a job")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  add_health_options(*command, arguments->health);
  command->add_option("--image", script.image, "Start the ranks in this image, by apptainer");
  add_output(*command, "-o,--out", arguments->out, "The script's file; -, standard output, where left out");
  command->footer(
      "The recipe must save (save.folder). See docs/slurm.md.\n"
      "\n"
      "Examples:\n"
      "  weft slurm recipes/gpt.toml -N 4 --ntasks-per-node 8 --gpus-per-node 8 --time 4:00:00 -o gpt.sbatch && sbatch "
      "gpt.sbatch\n"
      "  weft slurm recipes/gpt.toml -N 4 -n 8 --time 4:00:00 | sbatch");
  command->callback([arguments, &status] {
    write_slurm_script(*arguments);
    status = 0;
  });
}

}  // namespace weft
