// weft memory: memory per rank for a recipe, by category. Prints; plan/forecast.h computes it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/target_device.h"
#include "weft/base/units.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/heading.h"
#include "weft/cli/output/output.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/forecast.h"
#include "weft/program/build/build.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft {

namespace {

struct MemoryArguments {
  std::string recipe;
  int num_ranks = 1;
  std::vector<std::string> overrides;
  std::string device;      ///< empty: as run.device
  int ranks_per_host = 0;  ///< 0: not given
  bool json = false;
};

constexpr int64_t kMostStepsToCompare = 100'000;  ///< most blocks x micro-batches for which other levels are also computed

/// Drops the instruction lists, which are long and not printed.
RecipeMemory without_lists(RecipeMemory memory) {
  const ResolvedLayout& layout = memory.plan.layout;
  const StepLayout step = layout_without_schedule(layout.options, layout);
  memory.plan.program = std::make_shared<const Program>(frame_program(memory.plan.cost, step));
  return memory;
}

bool too_long_to_compare(const Plan& plan) {
  return int64_t{plan.program->num_blocks()} * plan.program->micro_batches > kMostStepsToCompare;
}

/// Returns true if there is nothing to compare: other levels cannot offload weights, and divide nothing if one rank reads all
/// samples.
bool is_alone(const Recipe& recipe, const Plan& plan) {
  return recipe.layout.offload_parameters != "none" || plan.layout.data_ranks() == 1;
}

/// Returns the recipe's own layout first, then the other shard levels; each takes as long to compute.
std::vector<RecipeMemory> columns(const MemoryArguments& arguments, const Recipe& recipe) {
  std::vector<RecipeMemory> result = {
      without_lists(recipe_memory(recipe, arguments.num_ranks, nullptr, arguments.ranks_per_host))};
  const Plan own = result.front().plan;
  if (is_alone(recipe, own) || too_long_to_compare(own) || arguments.json) return result;
  for (const std::string& level : kShardLevels.all()) {
    if (level == recipe.layout.shard_level) continue;
    Recipe other = recipe;
    other.layout.shard_level = level;
    try {
      result.push_back(without_lists(recipe_memory(other, arguments.num_ranks, own.costs, arguments.ranks_per_host)));
    } catch (const InputError&) {
      // A level that does not fit these choices gets no column; the recipe did not ask for it.
    }
  }
  return result;
}

std::string row(const std::string& what, const std::vector<std::string>& cells) {
  std::string line = fmt::format("  {:<22}", what);
  for (const std::string& cell : cells) line += fmt::format("  {:>12}", cell);
  return line + "\n";
}

bool is_for_gpu(const RecipeMemory& memory) { return memory.plan.costs->device() == TargetDevice::gpu; }

std::string table(const std::vector<RecipeMemory>& memories) {
  std::vector<std::string> heads, sums, totals, states, reserved;
  for (const RecipeMemory& m : memories) {
    heads.emplace_back(name(m.plan.program->shard_level));
    sums.push_back(format_bytes(m.estimate().sum()));
    totals.push_back(format_bytes(m.estimate().total()));
    states.push_back(format_bytes(m.estimate().model_states));
    reserved.push_back(format_bytes(m.estimate().reserved_bytes));
  }
  std::string text = row("shard_level", heads);
  for (size_t i = 0; i < kMemoryCategories.size(); ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    std::vector<std::string> cells;
    cells.reserve(memories.size());
    for (const RecipeMemory& m : memories)
      cells.push_back(m.estimate().of(category) ? format_bytes(m.estimate().of(category)) : "-");
    text += row(std::string(name(category)), cells);
  }
  text += row("sum", sums);
  text += row("at once, at most", totals);
  if (is_for_gpu(memories.front())) text += row("reserved, at least", reserved);
  return text + row("of which model states", states);
}

std::string text_of(const Recipe& recipe, const std::vector<RecipeMemory>& memories) {
  const RecipeMemory& own = memories.front();
  const MemoryEstimate& estimate = own.estimate();
  std::string text =
      wrapped(fmt::format("{}, {}", heading(recipe, own.plan.layout), name(own.plan.layout.options.precision)), 2) + "\n";
  text += fmt::format("{} parameters in {} blocks; largest block: {} '{}', {} of weights\n\n",
                      format_count(static_cast<double>(own.parameters)), own.plan.program->num_blocks(),
                      estimate.largest_block_index, own.plan.program->block_names[estimate.largest_block_index],
                      format_bytes(estimate.largest_block));
  if (own.by_stage_rank.size() > 1) {
    std::vector<std::string> totals;
    totals.reserve(own.by_stage_rank.size());
    for (const MemoryEstimate& rank : own.by_stage_rank) totals.push_back(format_bytes(rank.total()));
    text += fmt::format("pipeline ranks hold {}; below, the fullest one: pipeline rank {}\n\n", fmt::join(totals, ", "),
                        own.fullest);
  }
  text += fmt::format("bytes per rank{}\n{}", memories.size() > 1 ? ", for the recipe's shard level and the others" : "",
                      table(memories));
  if (!is_alone(recipe, own.plan) && too_long_to_compare(own.plan)) {
    text += fmt::format(
        "\nOther levels are not shown: {} blocks x {} micro-batches are more than {}. Select one with "
        "--set layout.shard_level.\n",
        own.plan.program->num_blocks(), own.plan.program->micro_batches, kMostStepsToCompare);
  }
  text +=
      "\nEach line is a category's peak. Activations are gone when weights are updated,\n"
      "which takes memory of its own: the larger of both is in \"at once, at most\".\n"
      "The process itself (code, stacks, kernel workspaces) is extra.\n";
  if (!is_for_gpu(own)) return text;
  return text +
         "\nFor a GPU: LibTorch's kernels there, and its caching allocator, which reserves\n"
         "whole segments. Copies of the state are in host memory, outside the sum. NCCL's\n"
         "buffers, the driver's context and workspaces of libraries are extra.\n";
}

std::string json_of(const RecipeMemory& memory) {
  nlohmann::ordered_json bytes;
  for (size_t i = 0; i < kMemoryCategories.size(); ++i) {
    bytes[std::string(name(static_cast<MemoryCategory>(i)))] = memory.estimate().peak[i];
  }
  const nlohmann::ordered_json json = {
      {"world", memory.plan.layout.world},
      {"device", kTargetDevices.of(memory.plan.costs->device())},
      {"shard_level", name(memory.plan.program->shard_level)},
      {"bytes", bytes},
      {"sum", memory.estimate().sum()},
      {"at_once", memory.estimate().total()},
      {"reserved", memory.estimate().reserved_bytes},
      {"host_bytes", memory.estimate().host_bytes},
      {"model_states", memory.estimate().model_states},
      {"largest_block", memory.plan.program->block_names[memory.estimate().largest_block_index]},
      {"largest_block_bytes", memory.estimate().largest_block}};
  return json.dump(2) + "\n";
}

}  // namespace

void add_memory(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("memory", "Estimate memory per rank for a recipe, by category");
  auto arguments = std::make_shared<MemoryArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("-n,--ranks", arguments->num_ranks, "Number of ranks; nothing is started")->capture_default_str();
  command
      ->add_option("--device", arguments->device, "Kind of device, which need not be there; default: the recipe's run.device")
      ->check(CLI::IsMember(kTargetDevices.all()));
  command
      ->add_option("--ranks-per-host", arguments->ranks_per_host,
                   "Ranks that share a host's memory; default: all, if they are at most 16")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--json", arguments->json, "Print the recipe's own layout as JSON");
  command->footer(
      "Adds up weights, gradients, optimizer state, gathered weights, activations and\n"
      "communication buffers of the program that `weft train` would run, without\n"
      "allocating them.\n"
      "\n"
      "Examples:\n"
      "  weft memory recipes/gpt.toml -n 64 --set batch.global=64 \\\n"
      "    --set layout.shard_level=parameters\n"
      "  weft memory recipes/gpt.toml -n 8 --device cuda");
  command->callback([arguments, &status] {
    if (!arguments->device.empty()) arguments->overrides.push_back("run.device=" + arguments->device);
    const Recipe recipe = with_chosen_layout(load_recipe(arguments->recipe, arguments->overrides), arguments->num_ranks);
    const std::vector<RecipeMemory> memories = columns(*arguments, recipe);
    write_out(arguments->json ? json_of(memories.front()) : text_of(recipe, memories));
    status = 0;
  });
}

}  // namespace weft
