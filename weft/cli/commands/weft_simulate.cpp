// weft simulate: the time of a recipe's step on given hardware. Prints; plan/forecast.h computes it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/communication.h"
#include "weft/cli/output/heading.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/time_files.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/plan/forecast.h"
#include "weft/program/draw/time_chart.h"
#include "weft/program/simulate/simulation.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

namespace {

struct SimulateArguments {
  std::string recipe;
  int num_ranks = 1;
  std::string hardware;
  std::vector<std::string> overrides;
  bool json = false;
  int width = kColumns;
  TimeFiles files;
};

using Ranks = std::vector<SimulatedRank>;

const SimulatedRank& most(const Ranks& ranks, double (*of)(const SimulatedRank&)) {
  return *std::max_element(ranks.begin(), ranks.end(), [of](const auto& a, const auto& b) { return of(a) < of(b); });
}
const SimulatedRank& least(const Ranks& ranks, double (*of)(const SimulatedRank&)) {
  return *std::min_element(ranks.begin(), ranks.end(), [of](const auto& a, const auto& b) { return of(a) < of(b); });
}

double exposed_s(const SimulatedRank& rank) { return rank.exposed_s; }
double busy_s(const SimulatedRank& rank) { return rank.busy_s; }
double launch_s(const SimulatedRank& rank) { return rank.launch_s; }
double bytes(const SimulatedRank& rank) { return static_cast<double>(rank.memory.total()); }

std::string percent(double part, double whole) { return fmt::format("{:.1f} %", whole > 0.0 ? 100.0 * part / whole : 0.0); }

std::string line(const char* what, const std::string& value, const std::string& remark) {
  constexpr size_t kRemark = 39;
  return wrapped(fmt::format("  {:<22}  {:>11}  {}", what, value, remark), kRemark) + "\n";
}

std::string speed_text(const RecipeSimulation& result) {
  std::string text = fmt::format("{} samples/s", format_count(result.samples_per_s));
  if (result.tokens_per_s > 0.0) text += fmt::format(", {} tokens/s", format_count(result.tokens_per_s));
  return text;
}

std::string memory_lines(const Ranks& ranks, const Hardware& hardware) {
  const SimulatedRank& fullest = most(ranks, bytes);
  const SimulatedRank& emptiest = least(ranks, bytes);
  std::string remark = fmt::format("the most, on rank {}", fullest.rank);
  if (hardware.memory_bytes < kFree) {
    remark += fmt::format("; a device has {}", format_bytes(static_cast<int64_t>(hardware.memory_bytes)));
  }
  if (bytes(fullest) > hardware.memory_bytes) remark += ": IT DOES NOT FIT";
  std::string text = line("memory per rank", format_bytes(fullest.memory.total()), remark);
  if (&fullest != &emptiest) {
    text += line("", format_bytes(emptiest.memory.total()), fmt::format("the least, on rank {}", emptiest.rank));
  }
  return text;
}

std::string communication_line(const Program& program, const SimulatedRank& rank) {
  const std::vector<Communication> all = communication_of(program, rank);
  if (all.empty()) return "";
  const auto exposed = std::count_if(all.begin(), all.end(), [](const Communication& x) { return x.exposed_s > 0.0; });
  std::string remark = "collectives, messages and copies there";
  if (const Communication* longest = most_exposed(all)) {
    remark += fmt::format("; the longest: {}, {} of its {}", longest->what, format_duration(longest->exposed_s),
                          format_duration(longest->seconds));
  }
  return line("", fmt::format("in {} of {}", exposed, all.size()), remark);
}

bool has_kinds(const SimulatedRank& rank) { return rank.computing.products + rank.computing.attention > 0.0; }

/// What of the computing each kind of operator takes; empty where operators are not counted.
std::string kinds_line(const SimulatedRank& rank) {
  const ComputingTimes& times = rank.computing;
  if (!has_kinds(rank)) return "";
  return line("", percent(times.products, rank.busy_s),
              fmt::format("matrix products; attention {}, memory-bound {}, launches and slowdown {}",
                          percent(times.attention, rank.busy_s), percent(times.memory_bound, rank.busy_s),
                          percent(times.overhead, rank.busy_s)));
}

std::string launch_lines(const RecipeSimulation& result, const Hardware& hardware) {
  if (!hardware.host_launch_s) return "";
  const auto text = [](const char* what, const std::string& value, const Simulation& s, const std::string& more) {
    const SimulatedRank& rank = most(s.ranks, launch_s);
    return line(what, value,
                fmt::format("{}rank {} waits {} for the host: {}, {}", more, rank.rank, format_duration(rank.launch_s),
                            counted(rank.launches, "launch", "es"), counted(rank.host_waits, "wait of the host", "")));
  };
  const auto share = [](const Simulation& s) { return fmt::format("{:.1f} %", 100.0 * s.launch_bound_share()); };
  std::string lines = text("launch-bound", share(result.simulation), result.simulation, "of the step; ");
  if (result.captured) {
    lines +=
        text("captured", share(*result.captured), *result.captured,
             fmt::format("of a step of {}, if it is a captured graph (run.graph); ", format_duration(result.captured->step_s)));
  }
  return lines;
}

std::string summary(const RecipeSimulation& result, const Hardware& hardware) {
  const Simulation& s = result.simulation;
  const SimulatedRank& busiest = most(s.ranks, busy_s);
  const SimulatedRank& exposed = most(s.ranks, exposed_s);
  const double peak = hardware.peak_flops(result.plan.program->weight_bytes);
  std::string text = line("step", format_duration(s.step_s), speed_text(result));
  text += line("computing", format_duration(busiest.busy_s), fmt::format("the busiest, rank {}", busiest.rank));
  text += kinds_line(busiest);
  text += line("bubble", fmt::format("{:.1f} %", 100.0 * s.bubble_share()), "of the step is idle on that rank");
  if (result.plan.program->mesh.pp > 1) {
    text += line("", fmt::format("{:.1f} %", 100.0 * s.span_bubble_share()),
                 "of the longest time from a rank's first forward to its last backward");
  }
  text += line("exposed communication", format_duration(exposed.exposed_s),
               fmt::format("the most, on rank {}: {} of the step", exposed.rank, percent(exposed.exposed_s, s.step_s)));
  text += communication_line(*result.plan.program, exposed) + launch_lines(result, hardware);
  text += line(
      "utilisation (MFU)", fmt::format("{:.1f} %", 100.0 * s.utilisation),
      fmt::format("of {}/s per device: {} per step{}", format_flops(peak), format_flops(s.model_flops),
                  s.flops > s.model_flops ? fmt::format(", and {} recomputed", format_flops(s.flops - s.model_flops)) : ""));
  return text + memory_lines(s.ranks, hardware);
}

std::string ranks_table(const Ranks& ranks) {
  constexpr size_t kMaxRows = 64;
  std::string text = fmt::format("  {:>5}  {:>5}  {:>3}  {:>9}  {:>9}  {:>9}  {:>9}  {:>11}\n", "rank", "alike", "pp",
                                 "computing", "exposed", "waiting", "memory", "activations");
  for (size_t i = 0; i < std::min(ranks.size(), kMaxRows); ++i) {
    const SimulatedRank& r = ranks[i];
    text += fmt::format("  {:>5}  {:>5}  {:>3}  {:>9}  {:>9}  {:>9}  {:>9}  {:>11}\n", r.rank, r.count, r.pp,
                        format_duration(r.busy_s), format_duration(r.exposed_s), format_duration(r.waiting_s),
                        format_bytes(r.memory.total()), format_bytes(r.memory.of(MemoryCategory::activations)));
  }
  if (ranks.size() > kMaxRows) text += fmt::format("  ... and {} more\n", ranks.size() - kMaxRows);
  return text;
}

void print_text(const SimulateArguments& arguments, const Recipe& recipe, const RecipeSimulation& result,
                const Hardware& hardware) {
  const Program& program = *result.plan.program;
  const std::string untimed = untimed_blocks_text(hardware, program.block_names);
  std::string text = fmt::format("{}\nhardware: {}, {} per host\n", wrapped(heading(recipe, result.plan.layout), 2),
                                 printable(hardware.name), counted(hardware.ranks_per_host, "rank"));
  if (!untimed.empty()) text += untimed + "\n";
  if (hardware.blocks.empty() && hardware.peak_flops(program.weight_bytes) == kFree) {
    text +=
        "the hardware has neither block times nor operations per second, so computing takes no time; measure both with "
        "weft profile\n";
  }
  text += "\n" + summary(result, hardware);
  if (result.simulation.ranks.size() > 1) text += "\n" + ranks_table(result.simulation.ranks);
  if (program.mesh.pp > 1) {
    const std::vector<TimedInstruction> timed = timed_instructions(program, result.simulation);
    const std::string chart = time_chart(program, timed, {.width = arguments.width});
    if (!result.plan.stages_text.empty()) text += "\n" + result.plan.stages_text;
    text += "\n";
    if (!chart.empty()) text += "pipeline over time: a blank is a wait\n" + chart_legend(timed, chart) + chart;
  }
  write_out(text);
}

nlohmann::ordered_json rank_json(const SimulatedRank& rank) {
  return {{"rank", rank.rank},
          {"alike", rank.count},
          {"pp", rank.pp},
          {"busy_s", rank.busy_s},
          {"exposed_s", rank.exposed_s},
          {"launch_s", rank.launch_s},
          {"waiting_s", rank.waiting_s},
          {"end_s", rank.end_s},
          {"flops", rank.flops},
          {"memory_bytes", rank.memory.total()},
          {"activation_bytes", rank.memory.of(MemoryCategory::activations)}};
}

nlohmann::ordered_json computing_json(const ComputingTimes& times) {
  return {{"products_s", times.products},
          {"attention_s", times.attention},
          {"memory_bound_s", times.memory_bound},
          {"overhead_s", times.overhead}};
}

nlohmann::ordered_json launch_json(const Simulation& s) {
  const SimulatedRank& rank = most(s.ranks, launch_s);
  return {{"step_s", s.step_s},        {"share", s.launch_bound_share()}, {"rank", rank.rank},
          {"launch_s", rank.launch_s}, {"launches", rank.launches},       {"host_waits", rank.host_waits}};
}

nlohmann::ordered_json communication_json(const Program& program, const SimulatedRank& rank) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const Communication& call : communication_of(program, rank)) {
    calls.push_back({{"what", call.what}, {"seconds", call.seconds}, {"exposed_s", call.exposed_s}});
  }
  return {{"rank", rank.rank}, {"calls", calls}};
}

void print_json(const RecipeSimulation& result, const Hardware& hardware) {
  const Simulation& s = result.simulation;
  const SimulatedRank& fullest = most(s.ranks, bytes);
  const SimulatedRank& emptiest = least(s.ranks, bytes);
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const SimulatedRank& rank : s.ranks) ranks.push_back(rank_json(rank));
  const MeshSizes& mesh = result.plan.program->mesh;
  const SimulatedRank& exposed = most(s.ranks, exposed_s);
  nlohmann::ordered_json json = {
      {"world", result.plan.program->world_size()},
      {"mesh", {{"pp", mesh.pp}, {"dp", mesh.dp}, {"shard", mesh.shard}, {"cp", mesh.cp}, {"tp", mesh.tp}}},
      {"hardware", hardware.name},
      {"step_s", s.step_s},
      {"samples_per_s", result.samples_per_s},
      {"tokens_per_s", result.tokens_per_s},
      {"busiest_s", s.busiest_s()},
      {"bubble_share", s.bubble_share()},
      {"span_s", s.span_s},
      {"span_bubble_share", s.span_bubble_share()},
      {"exposed_s", exposed.exposed_s},
      {"communication", communication_json(*result.plan.program, exposed)},
      {"flops", s.flops},
      {"model_flops", s.model_flops},
      {"mfu", s.utilisation},
      {"memory",
       {{"most_bytes", fullest.memory.total()},
        {"most_on_rank", fullest.rank},
        {"least_bytes", emptiest.memory.total()},
        {"least_on_rank", emptiest.rank},
        {"fits", bytes(fullest) <= hardware.memory_bytes}}},
      {"ranks", ranks}};
  const SimulatedRank& busiest = most(s.ranks, busy_s);
  if (has_kinds(busiest)) json["computing"] = computing_json(busiest.computing);
  if (hardware.host_launch_s) json["launch_bound"] = launch_json(s);
  if (result.captured) json["launch_bound"]["captured"] = launch_json(*result.captured);
  write_out(json.dump(2) + "\n");
}

void simulate_recipe(const SimulateArguments& arguments) {
  const Recipe given = load_recipe(arguments.recipe, arguments.overrides);
  arguments.files.check(given, {{"the recipe", arguments.recipe}, {"the hardware file", arguments.hardware}});
  const Hardware hardware = load_hardware(arguments.hardware);
  const Recipe recipe = with_chosen_layout(given, arguments.num_ranks, arguments.hardware);
  const RecipeSimulation result = recipe_simulation(recipe, arguments.num_ranks, hardware, arguments.hardware);
  arguments.files.write(*result.plan.program, result.simulation, hardware, heading(recipe, result.plan.layout));
  arguments.json ? print_json(result, hardware) : print_text(arguments, recipe, result, hardware);
}

}  // namespace

void add_simulate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("simulate", "Predict a recipe's step time on given hardware, for any number of ranks");
  auto arguments = std::make_shared<SimulateArguments>();
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("-n,--ranks", arguments->num_ranks, "Number of ranks; nothing is started")->capture_default_str();
  add_hardware(*command, arguments->hardware, "Hardware (TOML): a file, or the name of a shipped one, such as h100_node")
      ->required();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_option("--width", arguments->width, "Width of the pipeline chart, in columns")
      ->capture_default_str()
      ->check(CLI::Range(40, 1000));
  arguments->files.add_to(*command);
  command->footer(
      "Runs the program of `weft train` through a model of devices and links: who\n"
      "computes, who waits for whom, what is in memory. Identical ranks are simulated\n"
      "once, so thousands of ranks take no longer than a few.\n"
      "\n"
      "Example:\n"
      "  weft simulate recipes/gpt.toml -n 64 --hardware hardware/h100_node.toml \\\n"
      "    --set batch.global=512 --svg step.svg");
  command->callback([arguments, &status] {
    simulate_recipe(*arguments);
    status = 0;
  });
}

}  // namespace weft
