// weft run: any program on N ranks of this host.
#include <CLI/CLI.hpp>
#include <memory>

#include "weft/base/error.h"
#include "weft/cli/commands.h"
#include "weft/cli/launch_ranks.h"

namespace weft {

void add_run(CLI::App& app, const std::vector<std::string>& program, int& status) {
  CLI::App* command = app.add_subcommand("run", "Run any program on N ranks of this machine");
  auto num_ranks = std::make_shared<int>(1);
  command->add_option("-n,--ranks", *num_ranks, "Ranks to start")->required();
  command->footer(
      "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as from torchrun, and\n"
      "OMP_NUM_THREADS = cores / ranks where it is not set. The first rank that fails ends the others. Ctrl-C ends all ranks,\n"
      "a second one at once.\n"
      "\n"
      "Example:\n"
      "  weft run -n 2 -- ./program --its-own arguments");
  command->callback([num_ranks, &program, &status] {
    if (program.empty()) {
      throw InputError("run: no program; write it after --, as in weft run -n 2 -- ./program arguments");
    }
    LaunchOptions options;
    options.num_ranks = *num_ranks;
    options.command = program;
    status = launch_ranks(options);
  });
}

}  // namespace weft
