// weft replay: steps of a run again, with the same bits and more checks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/launcher_variables.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"
#include "weft/base/units.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/number_range.h"
#include "weft/cli/output/output.h"
#include "weft/cli/ranks/as_ranks.h"
#include "weft/comm/rank_environment.h"
#include "weft/plan/make_plan.h"
#include "weft/train/process/process_memory.h"
#include "weft/train/run/replay.h"

namespace weft {

namespace {

struct ReplayArguments {
  ReplayOptions options;
  std::optional<int> num_ranks;
  bool json = false;
};

std::vector<std::string> rank_command(const ReplayArguments& arguments, const ReplayPlan& plan) {
  std::vector<std::string> command = {this_executable(),
                                      "replay",
                                      arguments.options.folder,
                                      "--step",
                                      fmt::to_string(plan.step),
                                      "--steps",
                                      fmt::to_string(plan.steps),
                                      "--checks",
                                      plan.checks};
  for (const std::string& override : arguments.options.overrides) command.insert(command.end(), {"--set", override});
  if (arguments.json) command.emplace_back("--json");
  return command;
}

double rms_of(const BlockRange& range) {
  return range.numel > 0 ? std::sqrt(range.squares / static_cast<double>(range.numel)) : 0.0;
}

std::string text_of(const ReplayedStep& step) {
  std::string text;
  if (!step.ranges.empty()) {
    text +=
        fmt::format("{:<24} {:<22} {:>11} {:>11} {:>11} {:>11}\n", "block", "values", "least", "greatest", "rms", "not finite");
    for (const BlockRange& range : step.ranges) {
      text += fmt::format("{:<24} {:<22} {:>11.4g} {:>11.4g} {:>11.4g} {:>11}\n", printable(step.blocks[range.block]),
                          range.what, range.least, range.greatest, rms_of(range), range.not_finite);
    }
  }
  if (!step.error.empty()) return text + printable(step.error) + "\n";
  text += fmt::format("step {}: loss {:.6g}", step.step, step.loss);
  if (step.norm > 0.0) text += fmt::format(", gradient norm {:.6g}", step.norm);
  return text + "; " + recorded_text(step) + (step.ranges.empty() ? "" : "; nothing that is not finite") + "\n";
}

nlohmann::json json_of(const ReplayedStep& step) {
  nlohmann::json ranges = nlohmann::json::array(), findings = nlohmann::json::array();
  for (const BlockRange& r : step.ranges) {
    ranges.push_back({{"block", step.blocks[r.block]},
                      {"values", r.what},
                      {"least", r.least},
                      {"greatest", r.greatest},
                      {"rms", rms_of(r)},
                      {"not_finite", r.not_finite}});
  }
  for (const Finding& finding : step.findings) findings.push_back(nlohmann::json::parse(finding_json(finding)));
  nlohmann::json json = {{"step", step.step}, {"ranges", ranges}, {"findings", findings}};
  if (!step.error.empty()) {
    json["error"] = step.error;
    return json;
  }
  json["loss"] = step.loss;
  json["grad_norm"] = step.norm;
  json["recorded"] = recorded_text(step);
  return json;
}

void replay_here(const ReplayPlan& plan, const World& world, const ReplayArguments& arguments) {
  keep_and_reuse_memory();
  const bool prints = world.rank() == 0 && !arguments.json;
  if (prints) {
    write_out(
        fmt::format("{} from {}, {}\n", plan.recipe.model.name, printable(plan.checkpoint), counted(world.size(), "rank")));
  }
  nlohmann::json steps = nlohmann::json::array();
  const auto on_step = [&](const ReplayedStep& step) {
    if (prints) write_out(text_of(step));
    if (!prints) steps.push_back(json_of(step));
  };
  replay(plan, world, on_step, [&](const std::string& note) {
    if (prints) write_out(printable(note) + "\n");
  });
  if (arguments.json && world.rank() == 0) {
    write_out(nlohmann::json{{"checkpoint", plan.checkpoint}, {"ranks", world.size()}, {"steps", steps}}.dump(2) + "\n");
  }
}

int run_replay(const ReplayArguments& arguments) {
  if (arguments.num_ranks) leave_outer_place();
  const auto environment = rank_environment();
  const ReplayPlan plan = plan_replay(arguments.options);
  const bool joins = !arguments.num_ranks && environment.has_value();
  const int ranks = joins ? environment->size : arguments.num_ranks.value_or(plan.ranks);
  check_plan(plan.recipe, ranks);
  return as_ranks(plan.recipe, joins ? std::nullopt : std::optional(ranks), rank_command(arguments, plan),
                  [&](const World& world) { replay_here(plan, world, arguments); });
}

}  // namespace

void add_replay(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("replay", "Run a step of a run again, with the same bits and more checks");
  auto arguments = std::make_shared<ReplayArguments>();
  command->add_option("folder", arguments->options.folder, "Folder of a run, or a checkpoint of it")->required();
  command
      ->add_option("--step", arguments->options.step,
                   "Step to check, from 1. Default: the one that failed, else the last one recorded")
      ->check(positive_count());
  command->add_option("--steps", arguments->options.steps, "Number of steps to check")
      ->capture_default_str()
      ->check(positive_count());
  command
      ->add_option("--checks", arguments->options.checks,
                   "operators: every operator's values, and the range of each block's; ranges: only those; none")
      ->capture_default_str()
      ->check(CLI::IsMember({"operators", "ranges", "none"}));
  add_overrides(*command, arguments->options.overrides);
  command->add_option("-n,--ranks", arguments->num_ranks, "Ranks to start on this machine. Default: as many as the run had")
      ->check(positive_count());
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "The step is run from the newest checkpoint before it. Nothing of the run is changed.\n"
      "See docs/stopped.md.\n"
      "\n"
      "Examples:\n"
      "  weft replay runs/a\n"
      "  weft replay runs/a --step 1200 --json");
  command->callback([arguments, &status] { status = run_replay(*arguments); });
}

}  // namespace weft
