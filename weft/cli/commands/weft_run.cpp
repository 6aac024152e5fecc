// weft run: runs any program as ranks on one or several hosts.
#include <CLI/CLI.hpp>
#include <climits>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/port_range.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/host_options.h"
#include "weft/cli/ranks/launch_ranks.h"
#include "weft/launch/exit_status.h"

namespace weft {

namespace {

struct RunArguments {
  int num_ranks = 0;
  int restarts = 0;
  std::string ports;
  HostOptions hosts;
};

/// Limits for a program that may not report its steps: only the number of restarts counts.
RestartOptions restarts_of_program(const RunArguments& arguments, const HostPlan& plan, int num_ranks) {
  RestartOptions options = no_restarts(num_ranks);
  options.limits.restarts = arguments.restarts;
  options.limits.most_in_vain = INT_MAX;
  options.counts_steps = false;
  if (plan.kind != HostPlan::Kind::head) return options;
  options.limits.most_ranks = options.limits.least_ranks = 0;  // as many as the hosts take
  return options;
}

bool is_training(const std::vector<std::string>& program) {
  return program.size() > 1 && std::filesystem::path(program[0]).filename() == "weft" && program[1] == "train";
}

int run_program(const RunArguments& arguments, bool has_ranks, const std::vector<std::string>& program) {
  if (program.empty()) {
    throw InputError("run: no program; give it after --, as in weft run -n 2 -- ./program arguments");
  }
  leave_outer_place(arguments.hosts);
  use_ports(arguments.ports);
  port_range();
  LaunchPlace place{
      .plan = host_plan(arguments.hosts, has_ranks), .options = arguments.hosts, .local_ranks = arguments.num_ranks};
  place.options.health.run = std::filesystem::path(program.front()).filename().string();
  if (!has_ranks && place.plan.kind != HostPlan::Kind::ssh) throw CLI::RequiredError("-n");
  check_rank_total(place, has_ranks ? std::optional<int>(arguments.num_ranks) : std::nullopt);
  LaunchOptions options;
  options.num_ranks = has_ranks ? arguments.num_ranks : place.plan.num_places();
  options.command = program;
  if (is_training(program)) {  // the exit statuses of its ranks are known
    options.done_status = kOutputLost;
    options.flawed_status = kNotCopied;
  }
  const RestartOptions restarts = restarts_of_program(arguments, place.plan, options.num_ranks);
  return launch_ranks(std::move(options), restarts, place);
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& program, int& status) {
  CLI::App* command = app.add_subcommand("run", "Run any program as ranks on one or several machines");
  auto arguments = std::make_shared<RunArguments>();
  command->add_option("-n,--ranks", arguments->num_ranks,
                      "Ranks to start: per host with --nodes, in all with --hosts (default: all that --hosts lists)");
  command->add_option("--restarts", arguments->restarts, "Maximum restarts of all ranks after one fails")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command->add_option("--ports", arguments->ports,
                      "Port range for weft and MASTER_PORT, e.g. 20000-20100. Replaces WEFT_PORTS");
  add_host_options(*command, arguments->hosts);
  command->footer(
      "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and\n"
      "MASTER_PORT, as from torchrun, and OMP_NUM_THREADS = cores / ranks unless set.\n"
      "The first rank that fails ends the others. Ctrl-C ends all ranks; a second one\n"
      "kills them at once.\n"
      "\n"
      "Examples:\n"
      "  weft run -n 2 -- ./program --its-own arguments\n"
      "  weft run --hosts a:4,b:4 -- ./program --its-own arguments");
  command->callback(
      [arguments, command, &program, &status] { status = run_program(*arguments, command->count("-n") > 0, program); });
}

}  // namespace weft
