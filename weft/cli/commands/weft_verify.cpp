// weft verify: trains a recipe's first steps in its layout and on one device, and checks that the results match.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/launcher_variables.h"
#include "weft/base/this_executable.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/heading.h"
#include "weft/cli/output/output.h"
#include "weft/cli/ranks/as_ranks.h"
#include "weft/launch/error_pipe.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/compare/compare_recipe.h"
#include "weft/train/compare/comparison_text.h"
#include "weft/train/process/process_memory.h"

namespace weft {

namespace {

constexpr int kDifferent = 3;  ///< exit status for different results

struct VerifyArguments {
  std::string recipe;
  std::optional<int> num_ranks;
  std::vector<std::string> overrides;
  int64_t steps = 3;
  bool exact = false;
  bool json = false;
};

std::vector<std::string> rank_command(const VerifyArguments& arguments) {
  std::vector<std::string> command = {this_executable(), "verify", arguments.recipe, "--steps",
                                      fmt::to_string(arguments.steps)};
  for (const std::string& override : arguments.overrides) command.insert(command.end(), {"--set", override});
  if (arguments.exact) command.emplace_back("--exact");
  if (arguments.json) command.emplace_back("--json");
  return command;
}

/// Reports the difference as main() reports an error.
void report_difference(const LayoutComparison& comparison) {
  const std::string line = difference_line(comparison);
  if (!report_error(line)) std::fprintf(stderr, "weft: %s\n", line.c_str());
}

/// Runs one rank in this process; returns its exit status.
int verify_here(const Recipe& recipe, const World& world, const VerifyArguments& arguments) {
  keep_and_reuse_memory();
  const bool leads = world.rank() == 0;
  CompareRecipeOptions options{.steps = arguments.steps, .exact = arguments.exact};
  if (leads && !arguments.json) {
    write_out(wrapped(heading(recipe, resolve(recipe, world.size())), 2) + "\n");
    options.on_run = [](const std::string& run) { write_out(fmt::format("running on {}\n", run)); };
  }
  const LayoutComparison comparison = compare_recipe(recipe, world, options);
  if (!leads) return 0;
  write_out(arguments.json ? comparison_json(comparison) : comparison_text(comparison));
  if (comparison.match != LayoutMatch::different) return 0;
  report_difference(comparison);
  return kDifferent;
}

int run_verify(const VerifyArguments& arguments) {
  if (arguments.num_ranks) leave_outer_place();
  const Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  if (arguments.num_ranks) check_plan(recipe, *arguments.num_ranks);
  int found = 0;
  const int status = as_ranks(recipe, arguments.num_ranks, rank_command(arguments),
                              [&](const World& world) { found = verify_here(recipe, world, arguments); });
  return status != 0 ? status : found;
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("verify", "Check that a recipe's layout trains like one device, bit for bit");
  auto arguments = std::make_shared<VerifyArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("-n,--ranks", arguments->num_ranks, "Ranks to start on this machine, as with weft train");
  command->add_option("--steps", arguments->steps, "Steps to train per run")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  command->add_flag("--exact", arguments->exact, "Treat rounding as a difference, even without run.reproducible_slots");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Trains the recipe's first steps in its layout, and on one device with the same\n"
      "micro-batches. Compares losses, gradient norms and all weights after every step.\n"
      "If they differ by more than rounding, or at all with run.reproducible_slots,\n"
      "switches off parts of the layout one at a time to find the cause.\n"
      "Exit status 0: bit-identical or within rounding; 3: different.\n"
      "\n"
      "Example:\n"
      "  weft verify recipes/gpt.toml -n 2 --set layout.pp=2 \\\n"
      "    --set run.reproducible_slots=4");
  command->callback([arguments, &status] { status = run_verify(*arguments); });
}

}  // namespace weft
