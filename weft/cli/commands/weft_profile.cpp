// weft profile: measures a recipe's blocks on this machine and writes a hardware file for weft simulate and layout.profile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "weft/base/launcher_variables.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/output_files.h"
#include "weft/cli/ranks/as_ranks.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/train/measure/profile_blocks.h"
#include "weft/train/process/process_memory.h"

namespace weft {

namespace {

struct ProfileArguments {
  std::string recipe;
  std::optional<int> num_ranks;
  std::vector<std::string> overrides;
  std::string output;
};

std::vector<std::string> rank_command(const ProfileArguments& arguments) {
  std::vector<std::string> command = {this_executable(), "profile", arguments.recipe, "--output", arguments.output};
  for (const std::string& override : arguments.overrides) command.insert(command.end(), {"--set", override});
  return command;
}

void profile_here(const Recipe& recipe, const World& world, const ProfileArguments& arguments) {
  keep_and_reuse_memory();
  if (world.rank() == 0) check_writable(arguments.output);  // only rank 0 writes; other ranks may run in another folder
  const Hardware hardware = profile(recipe, world);
  if (world.rank() != 0) return;
  write_file(arguments.output, hardware_text(hardware));
  write_out(fmt::format("wrote {}: {} blocks, measured on {} at once\n", printable(arguments.output), hardware.blocks.size(),
                        counted(world.size(), "rank")));
}

int run_profile(const ProfileArguments& arguments) {
  if (arguments.num_ranks) leave_outer_place();
  const Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  if (arguments.num_ranks) {
    check_plan(recipe, *arguments.num_ranks);
    check_not_read(recipe, {{"the recipe", arguments.recipe}}, {{"--output", arguments.output}});
    check_writable(arguments.output);
  }
  return as_ranks(recipe, arguments.num_ranks, rank_command(arguments),
                  [&](const World& world) { profile_here(recipe, world, arguments); });
}

}  // namespace

void add_profile(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("profile", "Measure a recipe's block times on this machine, for simulate");
  auto arguments = std::make_shared<ProfileArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("-n,--ranks", arguments->num_ranks, "Ranks to start on this machine, as with weft train");
  add_output(*command, "-o,--output", arguments->output, "Hardware file (TOML) to write")->required();
  command->footer(
      "Trains a few steps on random data, with every rank a replica, and writes the\n"
      "median time of each block's forward and backward (whole, and its two parts), the\n"
      "loss and the update, as well as memory and the link between ranks. It uses the\n"
      "recipe's micro-batch; measure again for another one.\n"
      "\n"
      "Example:\n"
      "  weft profile recipes/gpt.toml -n 2 -o here.toml\n"
      "  weft simulate recipes/gpt.toml -n 2 --set layout.pp=2 --hardware here.toml");
  command->callback([arguments, &status] { status = run_profile(*arguments); });
}

}  // namespace weft
