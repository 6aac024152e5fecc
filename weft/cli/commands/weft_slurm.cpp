// weft slurm: writes an sbatch script that trains a recipe on a cluster, for a person to read, change and submit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/host_options.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/options/repeatable.h"
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
  std::string gpus_per_node;  ///< such as "8" or "a100:8"
  std::vector<std::string> further;
  std::optional<int> signal_before_s;
  HealthOptions health;
  std::string out = "-";
};

/// Throws unless a restarted job could resume, which requires a saved checkpoint.
void check_resumes(const Recipe& recipe, bool launcher) {
  const std::string where = printable(recipe.path);
  if (recipe.save.folder.empty()) {
    throw InputError(
        fmt::format("{}: save.folder is not set, so a job that runs out of time would start over; set it to a folder "
                    "that all nodes can access (--set save.folder=...)",
                    where));
  }
  check_resumes_automatically(recipe, "a job");
  if (!launcher && recipe.save.memory_every) {
    throw InputError(
        fmt::format("{}: save.memory_every keeps copies in launcher-owned memory, and SLURM tasks have no launcher; use "
                    "-n RANKS instead of --ntasks-per-node, or leave it out",
                    where));
  }
}

/// Seconds from the signal to the job's end: the recipe's time for saving, plus a margin.
int signal_before_s(const SlurmArguments& arguments, const Recipe& recipe) {
  constexpr int kToSpare_s = 60;
  const int to_save_s = static_cast<int>(std::ceil(std::min(recipe.save.deadline_s, 60000.0)));
  const int before_s = arguments.signal_before_s.value_or(to_save_s + kToSpare_s);
  if (before_s < to_save_s) {
    throw InputError(fmt::format("--signal-before {}: shorter than the time a run may take to save, save.deadline_s = {} s",
                                 before_s, recipe.save.deadline_s));
  }
  const auto whole_s = arguments.time.empty() ? std::nullopt : slurm_seconds(arguments.time);
  if (whole_s && before_s * 2 > *whole_s) {
    throw InputError(
        fmt::format("--time {}: the signal to save, {} s before the end, would come in the first half of the job; give more "
                    "time, or reduce --signal-before and save.deadline_s",
                    printable(arguments.time), before_s));
  }
  return before_s;
}

/// GPUs that a --gpus-per-node asks for: "8", "a100:8", "a100:4,h100:4"; empty if it is none of these.
std::optional<int64_t> num_gpus(const std::string& text) {
  int64_t sum = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const auto number = parse_number<int>(std::string_view(part).substr(part.rfind(':') + 1));
    if (!number || *number < 0) return std::nullopt;
    sum += *number;
    begin = end + 1;
  }
  return sum;
}

/// Throws unless the job's ranks take the GPUs that it asks for.
void check_gpus(const SlurmArguments& arguments, const Recipe& recipe, int ranks_per_node) {
  if (arguments.gpus_per_node.empty()) return;
  const std::string asked = fmt::format("--gpus-per-node {}", printable(arguments.gpus_per_node));
  if (recipe.run.device == "cpu") {
    throw InputError(fmt::format("{}: {} sets run.device = \"cpu\", so its ranks take none; leave out one of them", asked,
                                 printable(recipe.path)));
  }
  const std::optional<int64_t> gpus = num_gpus(arguments.gpus_per_node);
  const bool shares = recipe.layout.backend == "shm" || recipe.layout.backend == "gloo";
  if (!gpus || *gpus == 0 || *gpus == ranks_per_node || (*gpus < ranks_per_node && shares)) return;
  throw InputError(fmt::format("{}: a rank takes one GPU, but a node has {}; use --ntasks-per-node {}, or -n {}{}", asked,
                               counted(ranks_per_node, "rank"), *gpus, *gpus,
                               *gpus < ranks_per_node ? "; with layout.backend = \"shm\" or \"gloo\" ranks share them" : ""));
}

/// Whether an option of sbatch asks for GPUs.
bool asks_for_gpus(const std::string& option) {
  return option.starts_with("--gpus") || option.starts_with("-G") ||
         ((option.starts_with("--gres") || option.starts_with("--tres-per-")) && option.find("gpu") != std::string::npos);
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

/// Command of a rank, or of a node's launcher.
std::vector<std::string> train_command(const SlurmArguments& arguments) {
  // An image has its own weft; otherwise the nodes can access this executable, as they can the recipe.
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
  check_resumes(recipe, arguments.ranks.has_value());
  BatchScript script = arguments.script;
  script.launcher = arguments.ranks.has_value();
  script.ranks_per_node = arguments.ranks ? *arguments.ranks : arguments.tasks_per_node.value_or(1);
  const int64_t ranks = int64_t{script.nodes} * script.ranks_per_node;
  check_plan(recipe, static_cast<int>(ranks));
  script.title = fmt::format("Trains {} on {} with {} each. Submit it with sbatch; edit it as needed.", printable(recipe.path),
                             counted(script.nodes, "node"), counted(script.ranks_per_node, "rank"));
  script.folder = std::filesystem::current_path().string();
  if (script.job_name.empty()) script.job_name = default_name(arguments.recipe);
  // SLURM gives a task one core by default, which a launcher's ranks would have to share.
  if (script.launcher && !script.cpus_per_task) script.cpus_per_task = script.ranks_per_node;
  check_gpus(arguments, recipe, script.ranks_per_node);
  script.signal_before_s = signal_before_s(arguments, recipe);
  add_options(arguments, script.options);
  script.gpus = recipe.run.device != "cpu" && std::any_of(script.options.begin(), script.options.end(), asks_for_gpus);
  script.command = train_command(arguments);
  const std::string text = batch_script(script);
  if (arguments.out == "-") return write_out(text);
  check_not_read(recipe, {{"the recipe", arguments.recipe}}, {{"-o", arguments.out}});
  write_file(arguments.out, text);
}

void add_resources(CLI::App& command, SlurmArguments& arguments) {
  BatchScript& script = arguments.script;
  command.add_option("-N,--nodes", script.nodes, "Number of nodes")->required()->check(CLI::Range(1, 1 << 17));
  CLI::Option* tasks =
      command.add_option("--ntasks-per-node", arguments.tasks_per_node, "Ranks per node, each a separate task. Default: 1");
  tasks->check(CLI::Range(1, 4096));
  command.add_option("-n,--ranks", arguments.ranks, "Ranks per node, started by one task, instead of --ntasks-per-node")
      ->excludes(tasks)
      ->check(CLI::Range(1, 4096));
  command.add_option("--cpus-per-task", script.cpus_per_task, "Cores per task")->check(CLI::Range(1, 1 << 16));
  command.add_option("--gpus-per-node", arguments.gpus_per_node, "GPUs per node, such as 8 or a100:8: one per rank");
  command.add_option("--mem", arguments.memory, "Memory per node, such as 200G");
  command.add_option("--time", arguments.time, "Time limit per job: minutes, 4:00:00 or 2-12:00:00. Default: partition's");
  command.add_option("-p,--partition", arguments.partition, "Partition");
  command.add_option("-A,--account", arguments.account, "Account");
  command.add_option("--qos", arguments.qos, "Quality of service");
  repeatable(
      command.add_option("--sbatch", arguments.further, "Further option for sbatch, such as --sbatch=--exclusive; repeatable"),
      "OPTION");
}

}  // namespace

void add_slurm(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("slurm", "Write an sbatch script that trains a recipe on a SLURM cluster");
  auto arguments = std::make_shared<SlurmArguments>();
  BatchScript& script = arguments->script;
  add_recipe(*command, arguments->recipe, arguments->overrides);
  add_resources(*command, *arguments);
  command->add_option("--job-name", script.job_name, "Name of the job. Default: the recipe's");
  command->add_option("--log", script.log, "Output file; SLURM's patterns work. Default: JOBNAME-JOBID.log");
  command
      ->add_option("--signal-before", arguments->signal_before_s,
                   "Seconds before the time limit at which a job is signalled to save. Default: save.deadline_s plus a minute")
      ->check(CLI::Range(1, 65535));
  CLI::Option* requeues = command->add_option("--requeues", script.requeues, "Maximum requeues of a job that ran out of time")
                              ->capture_default_str()
                              ->check(CLI::Range(0, 1000000));
  command
      ->add_option("--array", script.array,
                   "Submit this many jobs, each continuing the previous one, for clusters where a job may not requeue itself")
      ->excludes(requeues)
      ->check(CLI::Range(1, 100000));
  command->add_option("--restarts", script.restarts, "Maximum restarts of a failed training within a job")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  add_health_options(*command, arguments->health);
  command->add_option("--image", script.image, "Start the ranks in this image, with apptainer");
  add_output(*command, "-o,--out", arguments->out, "Script file to write. Default: -, standard output");
  command->footer(
      "The recipe must set save.folder. See docs/slurm.md.\n"
      "\n"
      "Examples:\n"
      "  weft slurm recipes/gpt.toml -N 4 --ntasks-per-node 8 --gpus-per-node 8 \\\n"
      "    --time 4:00:00 -o gpt.sbatch && sbatch gpt.sbatch\n"
      "  weft slurm recipes/gpt.toml -N 4 -n 8 --time 4:00:00 | sbatch");
  command->callback([arguments, &status] {
    write_slurm_script(*arguments);
    status = 0;
  });
}

}  // namespace weft
