// weft run: any program as ranks of this host, or of several.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "weft/base/error.h"
#include "weft/cli/commands.h"
#include "weft/cli/host_options.h"
#include "weft/cli/launch_ranks.h"

namespace weft {

void add_run(CLI::App& app, const std::vector<std::string>& program, int& status) {
  CLI::App* command = app.add_subcommand("run", "Run any program as ranks of this machine, or of several");
  auto num_ranks = std::make_shared<int>(0);
  auto hosts = std::make_shared<HostOptions>();
  command->add_option("-n,--ranks", *num_ranks,
                      "Ranks to start; of each host with --nodes, of all with --hosts (left out: those that are told there)");
  add_host_options(*command, *hosts);
  command->footer(
      "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as from torchrun, and\n"
      "OMP_NUM_THREADS = cores / ranks where it is not set. The first rank that fails ends the others. Ctrl-C ends all ranks,\n"
      "a second one at once.\n"
      "\n"
      "Example:\n"
      "  weft run -n 2 -- ./program --its-own arguments\n"
      "  weft run --hosts a:4,b:4 -- ./program --its-own arguments");
  command->callback([num_ranks, hosts, command, &program, &status] {
    if (program.empty()) {
      throw InputError("run: no program; write it after --, as in weft run -n 2 -- ./program arguments");
    }
    const bool told = command->count("-n") > 0;
    const LaunchPlace place{.plan = host_plan(*hosts, told), .options = *hosts, .local_ranks = *num_ranks};
    if (!told && place.plan.kind != HostPlan::Kind::ssh) throw CLI::RequiredError("-n");
    check_rank_total(place, told ? std::optional<int>(*num_ranks) : std::nullopt);
    LaunchOptions options;
    options.num_ranks = told ? *num_ranks : place.plan.num_places();
    options.command = program;
    status = launch_ranks(options, no_restarts(place.plan.kind == HostPlan::Kind::head ? 0 : options.num_ranks), place);
  });
}

}  // namespace weft
