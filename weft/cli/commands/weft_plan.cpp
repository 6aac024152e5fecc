// weft plan: the fastest layouts of a recipe on given hardware. Prints; plan/search finds them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/parse_bytes.h"
#include "weft/base/printable.h"
#include "weft/base/shipped_files.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/options/repeatable.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/output_files.h"
#include "weft/cli/output/plan_json.h"
#include "weft/cli/output/plan_text.h"
#include "weft/cli/output/search_progress.h"
#include "weft/cli/ranks/measure_layouts.h"
#include "weft/cli/ranks/recipe_runs.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/search/search_space.h"
#include "weft/recipe/limits.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_edit.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/study/plan_curve.h"
#include "weft/train/process/process_memory.h"

namespace weft {

namespace {

struct PlanArguments {
  std::string recipe;
  std::vector<std::string> overrides, hardware;
  int num_ranks = 0, num_hosts = 0;  ///< 0: not given
  std::string memory;
  std::vector<std::string> kept;
  SearchOptions search;
  std::optional<int> most;  ///< layouts to show
  bool json = false, space = false, measures = false, largest = false;
  std::string output, svg;
  std::string what_if;
  PlanBudget budget;
};

/// Takes --keep and --memory into the options of the search; a value of --keep is an override too.
void take_limits(PlanArguments& arguments) {
  for (const std::string& kept : arguments.kept) {
    const std::string key = kept.substr(0, kept.find('='));
    if (!key.starts_with("layout.") && key != "batch.micro") {
      throw InputError(
          fmt::format("--keep {}: only keys of [layout] and batch.micro are searched; use --set", shortened(kept)));
    }
    if (key != kept) arguments.overrides.push_back(kept);
    arguments.search.kept.push_back(key);
  }
  if (arguments.memory.empty()) return;
  const auto bytes = parse_bytes(arguments.memory);
  const bool has_unit = std::isalpha(static_cast<unsigned char>(arguments.memory.back())) != 0;
  if (!bytes || !has_unit) {
    throw InputError(fmt::format("--memory {}: write it as 24GiB, 80GB or 512MiB", shortened(arguments.memory)));
  }
  arguments.search.memory_bytes = *bytes;
}

/// Throws InputError for --keep and --vary of keys that cannot be.
void check_keys(const SearchOptions& search) {
  for (const std::string& key : search.kept) {
    if (const std::string why = why_not_kept(key); !why.empty()) throw InputError("--keep: " + why);
  }
  for (const std::string& key : search.varied) {
    if (key != kVariedKey) throw InputError(fmt::format("--vary {}: only {} can be varied", shortened(key), kVariedKey));
    if (std::count(search.kept.begin(), search.kept.end(), key) > 0) {
      throw InputError(fmt::format("--vary {} and --keep {}: leave one out", key, key));
    }
  }
}

/// What the recipe says of its planning: run.hardware, and with layout = "auto" the keys that are set beside it.
void take_from_recipe(PlanArguments& arguments, const Recipe& recipe) {
  if (arguments.hardware.empty() && recipe.run.hardware.empty()) {
    throw InputError(
        fmt::format("{}: on what hardware? add --hardware, such as h100_node, or run.hardware; weft calibrate writes a "
                    "file of this machine",
                    printable(recipe.path)));
  }
  if (arguments.hardware.empty()) arguments.hardware.push_back(shipped_or_own("hardware", recipe.run.hardware));
  if (!is_automatic(recipe)) return;
  const std::vector<std::string> kept = keys_to_keep(recipe);
  arguments.search.kept.insert(arguments.search.kept.end(), kept.begin(), kept.end());
}

/// Throws InputError if an output file is one of the files that are read, or cannot be written.
void check_output_files(const PlanArguments& arguments, const Recipe& recipe) {
  NamedFiles read = {{"the recipe", arguments.recipe}};
  for (const std::string& path : arguments.hardware) read.emplace_back("the hardware file", path);
  check_not_read(recipe, read, {{"-o", arguments.output}, {"--svg", arguments.svg}});
  for (const std::string& path : {arguments.output, arguments.svg}) {
    if (!path.empty()) check_writable(path);
  }
}

int ranks_on(const PlanArguments& arguments, const Hardware& hardware) {
  if (arguments.num_ranks > 0) return arguments.num_ranks;
  const int64_t ranks = int64_t{hardware.ranks_per_host} * std::max(1, arguments.num_hosts);
  if (ranks > kMostRanks) {
    throw InputError(fmt::format("--hosts {}: {} ranks; at most {} are planned", arguments.num_hosts, ranks, kMostRanks));
  }
  return static_cast<int>(ranks);
}

std::string plan_heading(const PlanArguments& arguments, const Recipe& recipe, const Hardware& hardware, int ranks) {
  const double limit = arguments.search.memory_bytes > 0.0 ? arguments.search.memory_bytes : hardware.memory_bytes;
  const std::string most = limit < kFree ? fmt::format(", at most {} on each", format_bytes(static_cast<int64_t>(limit))) : "";
  return wrapped(fmt::format("{} on {}, {} per step{}", printable(recipe.path), counted(ranks, "rank"),
                             counted(recipe.batch.global, "sample"), most),
                 2) +
         fmt::format("\nhardware: {}, {} per host\n\n", printable(hardware.name), counted(hardware.ranks_per_host, "rank"));
}

void write_recipe(const PlanArguments& arguments, const Recipe& recipe, const LayoutForecast& best, const Hardware& hardware,
                  int ranks) {
  constexpr int64_t kLongestRecipe = 1 << 20;
  const std::string rate =
      best.tokens_per_s > 0.0 ? format_count(best.tokens_per_s) + " tokens/s" : format_count(best.samples_per_s) + " samples/s";
  const std::vector<std::string> notes = {
      fmt::format("{} on {}: {}", counted(ranks, "rank"), printable(hardware.name), best.text),
      fmt::format("predicted: step {}, {}, MFU {:.1f} %, {} on the fullest rank", format_duration(best.step_s), rate,
                  100.0 * best.mfu, format_bytes(best.memory_bytes))};
  const std::string text = read_text_file("recipe", arguments.recipe, kLongestRecipe);
  write_file(arguments.output, edited_recipe(text, arguments.recipe, with_layout(recipe, best), notes));
}

std::string text_of_plan(const PlanArguments& arguments, const PlanReport& report) {
  constexpr size_t kMostGroups = 5;
  const SearchResult& result = report.result;
  std::string text;
  if (result.best.empty()) {
    text = result.over_memory > 0 ? "no layout fits\n\n" + remedies_text(report.remedies) : "no layout is possible\n";
  } else {
    text = best_layouts_text(result.best) + "\n" + approach_text(result.best.front().approach) + simpler_text(result) +
           order_text(report.order, result.best.size());
  }
  const std::string left_out = left_out_text(result.left_out, arguments.space ? result.left_out.size() : kMostGroups);
  if (!left_out.empty()) text += "\n" + left_out;
  text += "\n" + counts_text(report);
  return arguments.space ? text + space_text(result.space) : text;
}

/// Searches for the layouts to show, and for more to compare the first with.
PlanReport planned(const PlanArguments& arguments, const Recipe& recipe, const Hardware& hardware) {
  PlanReport report{.recipe = recipe.path, .ranks = ranks_on(arguments, hardware), .hardware = hardware.name};
  constexpr int kShown = 5, kCompared = 8;
  const auto costs = std::make_shared<CostTable>(for_hardware(recipe, hardware));
  SearchOptions search = arguments.search;
  const int shown = arguments.most.value_or(kShown);
  search.most = report.sought = std::max(shown, kCompared);
  search.finds_simpler = true;
  search.progress = SearchProgress();
  in_hardware_file(arguments.hardware.front(), [&] {
    report.result = search_layouts(recipe, report.ranks, hardware, search, costs);
    std::vector<LayoutForecast>& best = report.result.best;
    if (best.empty()) {
      const bool is_full = report.result.over_memory > 0;
      report.remedies = find_remedies(recipe, report.ranks, hardware, arguments.search, is_full, costs);
      return;
    }
    report.order = check_order(best, report.ranks, hardware, costs);
    best.resize(std::min(best.size(), static_cast<size_t>(shown)));
  });
  return report;
}

/// Trains the layouts shown, and takes the fastest.
void measure(const PlanArguments& arguments, const Recipe& recipe, PlanReport& report) {
  report.measured = measure_layouts(recipe, report.result.best,
                                    {.recipe = arguments.recipe,
                                     .overrides = arguments.overrides,
                                     .ranks = report.ranks,
                                     .folder = std::filesystem::path(arguments.recipe).stem().string() + "-plan"});
  report.chosen = fastest_measured(report.measured);
}

void plan_once(const PlanArguments& arguments, const Recipe& recipe) {
  const Hardware hardware = load_hardware(arguments.hardware.front());
  if (arguments.measures) {
    check_measurable(recipe, ranks_on(arguments, hardware));
    check_is_here(recipe, hardware, arguments.hardware.front());
  }
  PlanReport report = planned(arguments, recipe, hardware);
  const bool fits = !report.result.best.empty();
  if (!arguments.json) {
    write_out(plan_heading(arguments, recipe, hardware, report.ranks) + text_of_plan(arguments, report));
  }
  if (fits && arguments.measures) {
    measure(arguments, recipe, report);
    if (!arguments.json) write_out("\n" + measured_text(report, crowding_text(report.ranks)));
  }
  if (arguments.json) write_out(plan_json(report));
  if (!fits) throw InputError(why_none_fits(report));
  if (!report.chosen) {
    throw Error(fmt::format("{}: no layout could be measured: {}", printable(recipe.path), report.measured.front().failure));
  }
  if (arguments.output.empty()) return;
  write_recipe(arguments, recipe, report.result.best[*report.chosen], hardware, report.ranks);
  if (!arguments.json) {
    write_out(fmt::format("wrote {}, with layout {}\n", printable(arguments.output), *report.chosen + 1));
  }
}

void plan_several(const PlanArguments& arguments, const Recipe& recipe) {
  std::vector<CurveHardware> hardware;
  for (const std::string& path : arguments.hardware) {
    CurveHardware& each = hardware.emplace_back(load_hardware(path), path);
    each.ranks =
        arguments.what_if.empty() ? std::vector<int>{ranks_on(arguments, each.hardware)} : parse_what_if(arguments.what_if);
  }
  const PlanCurves curves = plan_curves(recipe, hardware, arguments.search, arguments.budget, arguments.largest);
  write_out(arguments.json ? plan_curves_json(curves) : plan_curves_table(curves));
  if (arguments.svg.empty()) return;
  const std::string chart = plan_curves_chart(curves);
  if (chart.empty())
    throw InputError(fmt::format("--svg: no layout of {} fits, so there is nothing to draw", printable(recipe.path)));
  write_file(arguments.svg, chart);
}

void run_plan(PlanArguments& arguments) {
  keep_and_reuse_memory();  // simulations free and allocate the same lists again and again
  const bool is_curve = !arguments.what_if.empty() || arguments.hardware.size() > 1;
  const bool is_of_one = !arguments.output.empty() || arguments.measures || arguments.space || arguments.most;
  if (is_curve && is_of_one) {
    throw InputError(
        "-o, --measure, --most and --space are of one number of ranks: leave them out with --what-if and several --hardware");
  }
  if (!is_curve && (!arguments.svg.empty() || arguments.budget.tokens > 0.0 || arguments.largest)) {
    throw InputError("--svg, --tokens, --price and --largest belong to --what-if or to several --hardware");
  }
  take_limits(arguments);
  const Recipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  check_keys(arguments.search);
  take_from_recipe(arguments, recipe);
  check_output_files(arguments, recipe);
  is_curve ? plan_several(arguments, recipe) : plan_once(arguments, recipe);
}

/// Options that say how many ranks of what there are.
void add_machine(CLI::App& command, PlanArguments& arguments) {
  add_hardware(command, arguments.hardware,
               "Hardware (TOML): a file, or the name of a shipped one, such as h100_node; several: one curve each. Default: "
               "run.hardware");
  CLI::Option* ranks = command.add_option("-n,--ranks,--gpus", arguments.num_ranks, "Number of ranks. Default: one host")
                           ->check(CLI::Range(1, kMostRanks));
  CLI::Option* hosts = command.add_option("--hosts", arguments.num_hosts, "Number of hosts, in place of ranks")
                           ->check(CLI::Range(1, kMostRanks));
  hosts->excludes(ranks);
  command.add_option("--memory", arguments.memory, "Most memory per rank: 24GiB. Default: the device's");
  command.add_option("--what-if", arguments.what_if, "gpus=8..4096: the fastest layout of each number of ranks, as a curve")
      ->excludes(ranks)
      ->excludes(hosts);
}

/// Options that bound the search.
void add_search(CLI::App& command, PlanArguments& arguments) {
  repeatable(command.add_option("--keep", arguments.kept,
                                "layout.tp=4, or layout.tp for the recipe's value: a key that is not searched; repeatable"),
             "KEY[=VALUE]");
  repeatable(command.add_option("--vary", arguments.search.varied,
                                "layout.precision: the one key that changes results and can be searched"),
             "KEY");
  command.add_option("--most", arguments.most, "Layouts to show. Default: 5")->check(CLI::Range(1, 1000));
  command.add_flag("--measure", arguments.measures,
                   "Train the layouts shown for 20 steps each, twice, on this machine, and take the fastest");
  command.add_flag("--space", arguments.space, "Also list what was searched, and all that was left out");
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("plan", "Find the fastest layouts of a recipe on given hardware");
  auto arguments = std::make_shared<PlanArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  add_machine(*command, *arguments);
  add_search(*command, *arguments);
  CLI::Option* tokens = command->add_option("--tokens", arguments->budget.tokens, "Tokens of the whole training: adds its days")
                            ->check(CLI::PositiveNumber);
  command
      ->add_option("--price", arguments->budget.prices,
                   "Price of a rank per hour: adds the training's cost; repeatable, one per --hardware")
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber)
      ->needs(tokens);
  command->add_flag("--largest", arguments->largest, "With --what-if: also how many layers the model could have");
  command->add_flag("--json", arguments->json, "Print JSON");
  add_output(*command, "-o,--output", arguments->output, "Write the recipe with the fastest layout to this file");
  add_output(*command, "--svg", arguments->svg, "Draw the curves to this SVG file");
  command->footer(
      "Simulates the layouts of a stated space that can be among the fastest and that\n"
      "fit, and says what limits them, what it left out and how sure it is.\n"
      "\n"
      "Examples:\n"
      "  weft plan recipes/gpt.toml --hardware h100_node -n 8 -o planned.toml\n"
      "  weft plan recipes/gpt.toml --hardware h100_node --hardware a100_roce \\\n"
      "    --what-if gpus=8..64 --set batch.global=512 --tokens 3e9 --price 2.5");
  command->callback([arguments, &status] {
    run_plan(*arguments);
    status = 0;
  });
}

}  // namespace weft
