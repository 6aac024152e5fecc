// weft show: draws the program of a recipe. Reads no data and allocates no weights.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/number_range.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/heading.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/time_files.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/plan/forecast.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/make_plan.h"
#include "weft/program/draw/draw.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

namespace {

struct ShowArguments {
  std::string recipe;
  int num_ranks = 1;
  std::vector<std::string> overrides;
  std::optional<int> rank;
  int width = kColumns;
  int ranks_per_host = 0;
  std::string hardware;
  TimeFiles files;
};

/// Draws the step over time, on the given hardware or on round numbers.
std::string draw_time(const ShowArguments& arguments, const Recipe& recipe, const Plan& plan, Hardware hardware) {
  hardware.narrow_across = crosses_narrow(recipe, *plan.program);
  Simulation simulation;
  in_hardware_file(arguments.hardware, [&] {
    check_micro_batch(hardware, plan.layout.micro_batch);
    simulation = simulate(*plan.program, hardware);
  });
  arguments.files.write(*plan.program, simulation, hardware, heading(recipe, plan.layout));
  return fmt::format("\nTimes in the files are simulated on {}{}.\n", printable(hardware.name),
                     arguments.hardware.empty() ? "; give your own with --hardware" : "");
}

void show(const ShowArguments& arguments) {
  const Recipe given = load_recipe(arguments.recipe, arguments.overrides);
  arguments.files.check(given, {{"the recipe", arguments.recipe}, {"the hardware file", arguments.hardware}});
  if (!arguments.hardware.empty() && !arguments.files.any()) {
    throw InputError("--hardware is only for the times in --svg and --trace; add one of them, or use weft simulate");
  }
  const Hardware hardware = arguments.hardware.empty() ? nominal_hardware() : load_hardware(arguments.hardware);
  const Recipe recipe = for_hardware(with_chosen_layout(given, arguments.num_ranks, arguments.hardware), hardware);
  const Plan all = make_plan(recipe, arguments.num_ranks);
  const std::string stages = all.stages_text.empty() ? "" : all.stages_text + "\n";
  std::string text = wrapped(heading(recipe, all.layout), 2) + "\n\n" +
                     (arguments.rank ? list(*all.program, *arguments.rank)
                                     : stages + draw(*all.program, {.width = arguments.width,
                                                                    .ranks_per_host = arguments.ranks_per_host,
                                                                    .narrow_across = crosses_narrow(recipe, *all.program)}));
  if (arguments.files.any()) text += draw_time(arguments, recipe, all, hardware);
  write_out(text);
}

}  // namespace

void add_show(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("show", "Draw a recipe's training step for any number of ranks");
  auto arguments = std::make_shared<ShowArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("-n,--ranks", arguments->num_ranks, "Number of ranks; nothing is started")->capture_default_str();
  CLI::Option* rank = command->add_option("--rank", arguments->rank, "List every instruction of this rank instead");
  command->add_option("--width", arguments->width, "Width of the drawing, in columns")
      ->capture_default_str()
      ->check(CLI::Range(40, 1000))
      ->excludes(rank);
  command->add_option("--ranks-per-host", arguments->ranks_per_host, "Report the traffic between hosts of this many ranks each")
      ->check(positive_count())
      ->excludes(rank);
  arguments->files.add_to(*command);
  add_hardware(*command, arguments->hardware, "Hardware (TOML) that gives the times of --svg and --trace");
  command->footer(
      "Draws the instructions of a step as a timeline, with bytes and floating-point\n"
      "operations. The program is the one that `weft train` runs, and is verified\n"
      "first. Needs no data, and no memory for weights.\n"
      "\n"
      "Example:\n"
      "  weft show recipes/gpt.toml -n 4096 --set batch.global=8192 --svg step.svg");
  command->callback([arguments, &status] {
    show(*arguments);
    status = 0;
  });
}

}  // namespace weft
