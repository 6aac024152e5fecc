// weft version.
#include <torch/version.h>

#include <CLI/CLI.hpp>

#include "weft/cli/commands/commands.h"
#include "weft/cli/output/output.h"

namespace weft {

std::string version_text() { return "weft " WEFT_VERSION ", LibTorch " TORCH_VERSION; }

std::string build_text() { return "weft " WEFT_VERSION " (" WEFT_BUILD ")"; }

void add_version(CLI::App& app) {
  app.add_subcommand("version", "Print the versions of weft and LibTorch")->callback([] { write_out(version_text() + "\n"); });
}

}  // namespace weft
