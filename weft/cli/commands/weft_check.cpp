// weft check: is this machine, or this cluster, sound? Prints; train/check/check_machine.h checks.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/stopwatch.h"
#include "weft/base/this_executable.h"
#include "weft/base/time_limit.h"
#include "weft/base/units.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/host_options.h"
#include "weft/cli/options/number_range.h"
#include "weft/cli/output/output.h"
#include "weft/cli/ranks/launch_ranks.h"
#include "weft/launch/error_pipe.h"
#include "weft/train/check/check_machine.h"
#include "weft/train/process/process_memory.h"

namespace weft {

namespace {

struct CheckArguments {
  std::optional<int> num_ranks;
  std::string device = "auto", backend = "auto";
  double timeout_s = 60.0;
  bool json = false;
  HostOptions hosts;
};

/// Enough for rank 0 to notice that a rank has gone.
constexpr double kTimeToReport_s = 10.0;

/// Reports failed checks as main() reports an error.
int report_failed(const std::vector<CheckLine>& lines) {
  const std::string failure = check_failure(lines);
  if (failure.empty()) return 0;
  if (!report_error(failure)) std::fprintf(stderr, "weft: %s\n", failure.c_str());
  return 1;
}

/// Runs one rank in this process; returns its exit status.
int check_here(const World& world, const CheckArguments& arguments) {
  keep_and_reuse_memory();
  // When a rank fails, the launcher ends the others: this one still says which part failed (kTimeToReport_s).
  if (world.rank() == 0 && world.size() > 1) ::signal(SIGTERM, SIG_IGN);
  const Stopwatch watch;
  const std::string heading = check_heading(world);
  std::vector<CheckLine> lines;
  CheckOptions options{.device = arguments.device,
                       .backend = arguments.backend,
                       .weft = build_text(),
                       .timeout = time_limit(arguments.timeout_s)};
  options.on_line = [&](const CheckLine& line) {
    lines.push_back(line);
    if (!arguments.json) write_out(check_text(line));
  };
  const auto end = [&] {
    if (world.rank() != 0) return;
    write_out(arguments.json ? check_json(heading, lines)
                             : fmt::format("{}; {}\n", check_summary(lines), format_duration(watch.seconds())));
  };
  if (world.rank() == 0 && !arguments.json) write_out(heading + "\n");
  try {
    check_machine(world, options);
  } catch (const std::exception&) {
    if (!lines.empty()) end();
    throw;
  }
  end();
  return world.rank() == 0 ? report_failed(lines) : 0;
}

/// Throws InputError for values that no recipe can have.
void check_option_values(const CheckArguments& arguments) {
  try {
    check_names({.device = arguments.device, .backend = arguments.backend});
  } catch (const InputError& error) {
    const std::string text = error.what();
    size_t begin =
        std::min(text.find("run.device"), text.find("layout.backend"));  // after a place in a recipe that nobody wrote
    if (begin == std::string::npos) begin = 0;
    throw InputError(fmt::format("--{}: {}", text.compare(begin, 3, "run") == 0 ? "device" : "backend", text.substr(begin)));
  }
}

int run_check(const CheckArguments& arguments) {
  check_option_values(arguments);
  const bool has_ranks = arguments.num_ranks.has_value();
  const bool has_hosts = !arguments.hosts.hosts.empty() || !arguments.hosts.host_file.empty();
  if (has_ranks || has_hosts) leave_outer_place(arguments.hosts);
  LaunchPlace place{.plan = host_plan(arguments.hosts, has_ranks),
                    .options = arguments.hosts,
                    .local_ranks = arguments.num_ranks.value_or(1)};
  const bool several = place.plan.kind != HostPlan::Kind::one;
  if (!has_ranks && several && place.plan.kind != HostPlan::Kind::ssh) throw CLI::RequiredError("-n");
  const int ranks = has_ranks ? *arguments.num_ranks : several ? place.plan.num_places() : 1;
  check_rank_total(place, arguments.num_ranks);
  if (!several && ranks == 1) {
    return check_here(has_ranks ? World() : World::from_environment(time_limit(arguments.timeout_s)), arguments);
  }
  LaunchOptions options;
  options.num_ranks = ranks;
  options.grace_s = kTimeToReport_s;
  options.command = {this_executable(), "check",           "--device",  arguments.device,
                     "--backend",       arguments.backend, "--timeout", fmt::to_string(arguments.timeout_s)};
  if (arguments.json) options.command.emplace_back("--json");
  RestartOptions restarts = no_restarts(ranks);
  if (place.plan.kind == HostPlan::Kind::head) restarts.limits.most_ranks = restarts.limits.least_ranks = 0;  // of all hosts
  return launch_ranks(std::move(options), restarts, place);
}

}  // namespace

void add_check(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("check", "Check that a machine or cluster is sound: limits, devices, collectives, layouts, links");
  auto arguments = std::make_shared<CheckArguments>();
  command->add_option(
      "-n,--ranks", arguments->num_ranks,
      "Ranks to start: per host with --nodes, in all with --hosts. Default: all that --hosts lists, or join a job "
      "as one of its ranks");
  command->add_option("--device", arguments->device, "Device of the ranks: auto, cpu or cuda, as run.device")
      ->capture_default_str();
  command
      ->add_option(
          "--backend", arguments->backend,
          "Backend of the layouts: auto, shm, gloo or nccl, as layout.backend; with shm and gloo ranks may share a GPU")
      ->capture_default_str();
  command->add_option("--timeout", arguments->timeout_s, "Seconds that a rank waits for a peer")
      ->capture_default_str()
      ->check(number_range(1.0, 3600.0));
  command->add_flag("--json", arguments->json, "Print JSON");
  add_host_options(*command, arguments->hosts);
  command->footer(
      "Prints one line per check: ok, FAILED with the cause and what to do, or \"-\" for\n"
      "what cannot be checked here, with the reason. Takes seconds; a slow\n"
      "network a minute.\n"
      "Exit status 0: nothing failed; 1: something did.\n"
      "\n"
      "Examples:\n"
      "  weft check -n 4\n"
      "  weft check --hosts a:2,b:2\n"
      "  srun weft check --json");
  command->callback([arguments, &status] { status = run_check(*arguments); });
}

}  // namespace weft
