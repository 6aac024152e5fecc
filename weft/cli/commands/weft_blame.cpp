// weft blame: who did not come to what when a run hung.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "weft/base/printable.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/output/output.h"
#include "weft/report/stopped/blame_text.h"
#include "weft/report/stopped/evidence_files.h"

namespace weft {

namespace {

struct BlameArguments {
  std::string folder;
  bool json = false;
};

void blame(const BlameArguments& arguments) {
  const std::string folder = find_evidence(arguments.folder);
  const ReadEvidence read = read_evidence(folder);
  if (arguments.json) return write_out(blame_json(read.evidence, read.problems));
  const bool is_older = std::filesystem::path(folder).filename().string().starts_with(std::string(kStoppedFolder) + "-");
  write_out(printable(folder) + (is_older ? " (of an earlier process of the run):\n" : ":\n"));
  std::istringstream lines(blame_text(read.evidence, read.problems));
  for (std::string line; std::getline(lines, line);) write_out(printable(line) + "\n");
}

}  // namespace

void add_blame(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("blame", "Say which rank did not come to what when a run hung");
  auto arguments = std::make_shared<BlameArguments>();
  command->add_option("run", arguments->folder, "Folder of a run (run.folder or save.folder), or one with evidence")
      ->required();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Reads what each rank left in stopped/ below the run's folder when a wait failed.\n"
      "\n"
      "Example:\n"
      "  weft blame runs/gpt");
  command->callback([arguments, &status] {
    blame(*arguments);
    status = 0;
  });
}

}  // namespace weft
