// weft completion, weft man: shell completion and manual pages, made from the same tables as --help.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/command_table.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/output/output.h"

namespace weft {

namespace {

void write_pages(const CLI::App& command, const std::string& folder) {
  write_file(fmt::format("{}/{}.1", folder, page_name(command)), manual_page(command));
  for (const CLI::App* below : shown_commands(command)) write_pages(*below, folder);
}

void write_manual(const CLI::App& app, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError(fmt::format("cannot create the folder '{}': {}", printable(folder), error.message()));
  write_pages(app, folder);
}

}  // namespace

void add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print a shell completion script for weft");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->footer(
      "An installed weft already has both in place. Otherwise:\n"
      "  source <(weft completion bash)");
  command->callback([&app, shell] { write_out(*shell == "bash" ? bash_completion(app) : zsh_completion(app)); });
}

void add_man(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Write manual pages of all commands to a folder");
  auto folder = std::make_shared<std::string>();
  command->add_option("folder", *folder, "Folder for weft.1, weft-train.1, ...")->required();
  command->footer(
      "With an installed weft, `man weft-train` already works. Otherwise:\n"
      "  weft man pages && man pages/weft-train.1");
  command->callback([&app, folder] { write_manual(app, *folder); });
}

}  // namespace weft
