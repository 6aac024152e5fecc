// weft compare: what differs between runs.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "weft/cli/commands/commands.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/run_reader.h"
#include "weft/report/history/compare_runs.h"

namespace weft {

namespace {

void compare(const std::vector<std::string>& places) {
  const std::vector<RunReader> readers = read_runs(places, compared_values());
  write_out(comparison_text(histories_of(readers), unix_time_s()));
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("compare", "Compare runs: recipes, curves at equal samples, end values");
  auto runs = std::make_shared<std::vector<std::string>>();
  constexpr int kAny = -1;
  command->add_option("run", *runs, "Folders or URLs of two runs or more (run.folder or save.folder)")
      ->required()
      ->expected(2, kAny);
  command->footer(
      "Runs that differ only in run.seed count as one, with the mean and the standard\n"
      "deviation of a seed's figures.\n"
      "\n"
      "Example:\n"
      "  weft compare runs/lr1-seed1 runs/lr1-seed2 runs/lr3-seed1");
  command->callback([runs, &status] {
    compare(*runs);
    status = 0;
  });
}

}  // namespace weft
