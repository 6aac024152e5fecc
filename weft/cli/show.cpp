// weft show: the program of a recipe, drawn. No data is read, no weights are made.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/cli/commands.h"
#include "weft/program/draw.h"
#include "weft/train/plan.h"

namespace weft {

namespace {

struct ShowArguments {
  std::string recipe;
  int num_ranks = 1;
  std::vector<std::string> overrides;
  std::optional<int> rank;
  int width = 100;
};

std::string mesh_text(const ResolvedLayout& layout) {
  std::vector<std::string> axes;
  if (layout.pp > 1) axes.push_back(fmt::format("pp {} ({})", layout.pp, layout.options.pipeline.schedule));
  if (layout.dp > 1 || (layout.shard == 1 && layout.pp == 1)) axes.push_back(fmt::format("dp {}", layout.dp));
  if (layout.shard > 1) axes.push_back(fmt::format("shard {}", layout.shard));
  return fmt::format("{}", fmt::join(axes, " x "));
}

std::string heading(const Recipe& recipe, const ResolvedLayout& layout) {
  return fmt::format("{} on {} rank{}: {}, a step of {} samples = {} x {} micro-batch{} of {}{}\n\n", recipe.path, layout.world,
                     layout.world == 1 ? "" : "s", mesh_text(layout), layout.global_batch, layout.data_ranks(),
                     layout.micro_batches_per_rank, layout.micro_batches_per_rank == 1 ? "" : "es", layout.micro_batch,
                     layout.slots_per_rank > 1 ? fmt::format(", {} slots a rank", layout.slots_per_rank) : "");
}

void show(const ShowArguments& arguments) {
  const Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  const Plan all = plan(recipe, arguments.num_ranks);
  const std::string stages = all.stages_text.empty() ? "" : all.stages_text + "\n";
  const std::string text = heading(recipe, all.layout) +
                           (arguments.rank ? list(all.program, *arguments.rank)
                                           : stages + draw(all.program, {.width = arguments.width}));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_show(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("show", "Draw what a training step of a recipe does, for any number of ranks");
  auto arguments = std::make_shared<ShowArguments>();
  command->add_option("recipe", arguments->recipe, "Recipe (TOML)")->required();
  command->add_option("-n,--ranks", arguments->num_ranks, "Ranks to show it for; none is started")->capture_default_str();
  command->add_option("--set", arguments->overrides, "section.key=value: replace a key of the recipe; repeatable")
      ->allow_extra_args(false);
  command->add_option("--rank", arguments->rank, "List every instruction of this rank instead");
  command->add_option("--width", arguments->width, "Columns of the drawing")
      ->capture_default_str()
      ->check(CLI::Range(40, 1000));
  command->footer(
      "Draws the instructions of a step as a timeline, with bytes and floating-point operations. The program is verified\n"
      "first, and is the one that `weft train` runs. Needs neither data nor memory for weights.\n"
      "\n"
      "Example:\n"
      "  weft show recipes/gpt.toml -n 4096 --set batch.global=8192");
  command->callback([arguments, &status] {
    show(*arguments);
    status = 0;
  });
}

}  // namespace weft
