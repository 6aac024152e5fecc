// weft data check: checks all of a recipe's data before a training. Needs no ranks.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/printable.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/output.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/check_data.h"

namespace weft {

namespace {

constexpr int kDamaged = 3;  ///< exit status if training would fail on the data

struct DataArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int threads = 0;
  bool json = false;
};

int check_data_of(const DataArguments& arguments) {
  const Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  CheckDataOptions options{.threads = arguments.threads};
  const bool is_watched = isatty(STDERR_FILENO) != 0;
  if (is_watched) {
    options.on_progress = [](const std::string& set, int64_t done, int64_t all) {
      const std::string line = fmt::format("{}: {} of {} ({} %)", printable(set), done, all, 100 * done / all);
      std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
    };
  }
  const DataReport report = check_data(recipe, options);
  if (is_watched) std::fputs("\r\x1b[K", stderr);
  write_out(arguments.json ? data_report_json(report) : data_report_text(report));
  return stops_training(report) ? kDamaged : 0;
}

}  // namespace

void add_data(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("data", "Check a recipe's data before training");
  command->require_subcommand(1);
  CLI::App* checking = command->add_subcommand("check", "Read all of a recipe's data; report contents and damage");
  auto arguments = std::make_shared<DataArguments>();
  add_recipe(*checking, arguments->recipe, arguments->overrides);
  checking->add_option("--threads", arguments->threads, "Reader threads; 0: one per core")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  checking->add_flag("--json", arguments->json, "Print JSON, with all names");
  const char* footer =
      "Decodes every image and reads every token of the recipe's training and\n"
      "evaluation sets. Reports counts, classes, sizes, the largest token id vs the\n"
      "vocabulary, damaged entries with the reason, and files next to the data\n"
      "that are not read. Exit status 3: training would fail on this data.\n"
      "\n"
      "Example:\n"
      "  weft data check recipes/imagenet_resnet50.toml --set data.path=imagenet";
  checking->footer(footer);
  command->footer(footer);
  checking->callback([arguments, &status] { status = check_data_of(*arguments); });
}

}  // namespace weft
