// weft evaluate: the loss of saved weights, on any number of ranks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/launcher_variables.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/number_range.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/output_files.h"
#include "weft/cli/ranks/as_ranks.h"
#include "weft/comm/rank_environment.h"
#include "weft/report/progress.h"
#include "weft/report/summary.h"
#include "weft/train/process/process_memory.h"
#include "weft/train/run/evaluate_saved.h"

namespace weft {

namespace {

struct EvaluateArguments {
  EvaluateOptions options;
  std::optional<int> num_ranks;
  std::string summary;
  bool json = false;
};

/// Takes resolved `weights`, so that with a folder of checkpoints all ranks use the same one.
std::vector<std::string> rank_command(const EvaluateArguments& arguments, const std::string& weights) {
  std::vector<std::string> command = {this_executable(), "evaluate", weights};
  if (!arguments.options.recipe.empty()) command.push_back(arguments.options.recipe);
  for (const std::string& override : arguments.options.overrides) command.insert(command.end(), {"--set", override});
  if (!arguments.summary.empty()) command.insert(command.end(), {"--summary", arguments.summary});
  if (arguments.json) command.emplace_back("--json");
  return command;
}

void evaluate_here(const EvaluationPlan& plan, const World& world, const EvaluateArguments& arguments) {
  keep_and_reuse_memory();
  const bool leads = world.rank() == 0, prints = leads && !arguments.json;
  if (prints) {
    const std::string by = plan.recipe_path.empty() ? "its own recipe" : printable(plan.recipe_path);
    write_out(
        fmt::format("{}: {} by {}, {}\n", printable(plan.weights), plan.recipe.model.name, by, counted(world.size(), "rank")));
    for (const std::string& note : plan.notes) write_out(printable(note) + "\n");
  }
  const EvaluatedWeights result = evaluate_saved(plan, world, [prints](const EvaluationReport& report) {
    if (prints) write_out(evaluation_line(report) + "\n");
  });
  if (!leads) return;
  const auto& [names, more] = result.skipped;
  if (prints && !names.empty()) write_out(fmt::format("skipped data: {}\n", skipped_text(names, more)));
  const std::string json = summary_json(result.evaluation, result.skipped);
  if (arguments.json) write_out(json);
  if (!arguments.summary.empty()) write_file(arguments.summary, json);
}

int run_evaluate(const EvaluateArguments& arguments) {
  if (arguments.num_ranks) leave_outer_place();
  const auto environment = rank_environment();
  const bool joins = !arguments.num_ranks && environment.has_value();
  const int ranks = joins ? environment->size : arguments.num_ranks.value_or(1);
  const EvaluationPlan plan = plan_evaluation(arguments.options, ranks);
  if (!arguments.summary.empty() && (!joins || environment->rank == 0)) {
    check_not_read(plan.recipe, {{"the recipe", arguments.options.recipe}, {"the weights", arguments.options.weights}},
                   {{"--summary", arguments.summary}});
    check_writable(arguments.summary);
  }
  return as_ranks(plan.recipe, arguments.num_ranks, rank_command(arguments, plan.weights),
                  [&](const World& world) { evaluate_here(plan, world, arguments); });
}

}  // namespace

void add_evaluate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("evaluate", "Evaluate a checkpoint or weights file as weft train would");
  auto arguments = std::make_shared<EvaluateArguments>();
  command
      ->add_option("weights", arguments->options.weights,
                   "Checkpoint folder or URL, a folder of checkpoints (the newest is used), or weights "
                   "(.safetensors, .pt, a Hugging Face folder)")
      ->required();
  command->add_option("recipe", arguments->options.recipe,
                      "Recipe (TOML) with the model and the evaluation data. Default: the checkpoint's own");
  add_overrides(*command, arguments->options.overrides);
  command->add_option("-n,--ranks", arguments->num_ranks, "Ranks to start on this machine, as with weft train")
      ->check(positive_count());
  add_output(*command, "--summary", arguments->summary, "Write the results to this JSON file");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Nothing is trained or changed. Ranks hold only the weights.\n"
      "See docs/evaluation.md.\n"
      "\n"
      "Examples:\n"
      "  weft evaluate runs/a\n"
      "  weft evaluate runs/a/step-00000500 -n 2 --set run.evaluate=both\n"
      "  weft evaluate gpt.safetensors recipes/gpt.toml --set data.path=book.txt --json");
  command->callback([arguments, &status] { status = run_evaluate(*arguments); });
}

}  // namespace weft
