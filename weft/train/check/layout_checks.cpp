#include "weft/train/check/layout_checks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "weft/base/units.h"
#include "weft/comm/world_hosts.h"
#include "weft/plan/cost/rank_memory.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/compare/batch_source.h"
#include "weft/train/compare/compare_layouts.h"
#include "weft/train/compare/comparison_text.h"
#include "weft/train/measure/step_memory.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/trainer/gathered_texts.h"

namespace weft {

namespace {

constexpr double kTolerance = 0.05, kOfSum = 0.01;
constexpr int64_t kSteps = 2;
constexpr int64_t kContext = 64, kTokens = 256;

/// The step's global batch, the same on every rank.
Batch batch_of(int64_t step, int64_t samples) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 1);
  const at::Tensor tokens = at::randint(kTokens, {samples, kContext + 1}, generator, at::kLong);
  return {{tokens.narrow(1, 0, kContext).contiguous()}, tokens.narrow(1, 1, kContext).contiguous(), step * samples};
}

/// This rank's share of a batch.
Batch rank_share(const Batch& batch, const ResolvedLayout& layout, const World& world) {
  const Mesh mesh(world, mesh_axes(layout));
  const int index = mesh.coordinate("dp") * layout.shard + mesh.coordinate("shard");
  const int64_t samples = layout.global_batch / layout.data_ranks();
  return {{batch.inputs[0].narrow(0, index * samples, samples).contiguous()},
          batch.target.narrow(0, index * samples, samples).contiguous(),
          index * samples};
}

int64_t sum_of(const CategoryBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

/// Host of each rank, as a number.
std::vector<int> host_numbers(const World& world) {
  std::vector<std::string> known;
  std::vector<int> numbers;
  for (const std::string& host : hosts_of(world)) {
    const auto at = std::find(known.begin(), known.end(), host);
    numbers.push_back(static_cast<int>(at - known.begin()));
    if (at == known.end()) known.push_back(host);
  }
  return numbers;
}

/// The forecast for this rank, on its device.
CategoryBytes forecast_of(const Recipe& recipe, const RecipeMemory& memory, const World& world, at::Device device) {
  const auto stage = static_cast<size_t>(Mesh(world, mesh_axes(memory.plan.layout)).coordinate("pp"));
  CategoryBytes forecast = memory.by_stage_rank.at(std::min(stage, memory.by_stage_rank.size() - 1)).peak;
  forecast[static_cast<size_t>(MemoryCategory::communication)] =
      group_buffer_bytes(recipe, memory.plan, world.rank(), host_numbers(world));
  if (!device.is_cpu()) forecast[static_cast<size_t>(MemoryCategory::saving)] = 0;  // in host memory
  return forecast;
}

/// Measures on every rank; the result is on rank 0, empty if a rank's device does not tell.
std::vector<CheckedMemory> memory_of_ranks(const CheckedLayout& checked, const Recipe& recipe, const World& world,
                                           at::Device device, const RecipeMemory& memory) {
  const ResolvedLayout& layout = memory.plan.layout;
  const GroupOptions options = trainer_options(recipe, layout, device).communication;
  const Batch batch = rank_share(batch_of(0, layout.global_batch), layout, world);
  const StepMemory measured = step_memory(recipe, layout, world, batch, options);
  nlohmann::json own = {{"forecast", forecast_of(recipe, memory, world, device)},
                        {"extra", device.is_cpu() ? packed_for_products(recipe, layout) : flags_of_checks(layout)}};
  if (measured.peak) own["measured"] = *measured.peak;
  std::vector<CheckedMemory> result;
  bool all = true;
  for (const std::string& text :
       gathered_texts(world, "memory of " + checked.name, own.dump(), options.timeout * world.size())) {
    const nlohmann::json json = nlohmann::json::parse(text);
    all = all && json.contains("measured");
    if (!all) continue;
    result.push_back({.forecast = json.at("forecast").get<CategoryBytes>(),
                      .measured = json.at("measured").get<CategoryBytes>(),
                      .extra = json.at("extra")});
  }
  return all ? result : std::vector<CheckedMemory>();
}

std::string match_text(const LayoutComparison& comparison) {
  if (comparison.match == LayoutMatch::bit_identical) return "trains as one device does, bit by bit";
  double most = 0.0;
  for (const Deviation& deviation : comparison.deviations) {
    if (deviation.is_weight) most = std::max(most, deviation.relative);
  }
  return fmt::format("trains as one device does, within rounding ({:.0e} of a weight)", most);
}

}  // namespace

const std::vector<CheckedLayout>& checked_layouts() {
  static const std::vector<CheckedLayout> layouts = {
      {"dp", R"(shard_level = "none")"},
      {"zero-1", R"(shard_level = "optimizer")"},
      {"zero-2", R"(shard_level = "gradients")"},
      {"zero-3", R"(shard_level = "parameters")"},
      {"1f1b", R"(pp = 2, schedule = "1f1b")", 2},
      {"zb-h1", R"(pp = 2, schedule = "zb-h1")", 2},
      {"tp", R"(tp = 2, sequence_parallel = true)", 2, true, true},
      {"cp", R"(cp = 2, context_attention = "ring")", 2, true, true},
      {"offload", R"(shard_level = "optimizer", offload_optimizer = "disk")", 1, false},
      {"recompute", R"(recompute = "blocks")", 1, false},
      {"bf16", R"(shard_level = "gradients", precision = "bf16")", 1, false},
      {"mixture", R"(pp = 2, schedule = "1f1b", shard_level = "parameters", recompute = "blocks", precision = "bf16")", 2},
  };
  return layouts;
}

Recipe recipe_of(const CheckedLayout& layout, int ranks, const CheckOptions& options) {
  const bool has_slots = (ranks & (ranks - 1)) == 0;
  const char* optimizer = layout.splits_sums || !has_slots ? "sgd" : "adamw";
  return parse_recipe(
      fmt::format(R"(
    model = {{ name = "gpt", layers = 2, heads = 4, width = 64, context = {} }}
    data = {{ name = "text", path = "none.txt" }}
    batch = {{ global = {}, micro = 1 }}
    layout = {{ {}, backend = "{}" }}
    optimizer = {{ name = "{}", lr = 1e-3, clip = 1.0 }}
    run = {{ steps = {}, threads = 1, reproducible_slots = {}, device = "{}", timeout_s = {} }}
  )",
                  kContext, 2 * std::max(ranks, 2), layout.keys, options.backend, optimizer, kSteps,
                  has_slots ? std::max(ranks, 2) : 0, options.device, std::chrono::duration<double>(options.timeout).count()),
      "weft check");
}

CheckLine check_layout(const CheckedLayout& checked, const Recipe& recipe, const World& world, at::Device device) {
  at::set_num_threads(threads_of(recipe, world));
  const RecipeMemory memory = recipe_memory(recipe, world.size());
  const ResolvedLayout& layout = memory.plan.layout;
  LayoutsToCompare compared{
      .layout = {.axes = mesh_axes(layout), .options = trainer_options(recipe, layout, device)},
      .trained = {.model = [&recipe] { return build_model(recipe.model); },
                  .optimizer = optimizer_of(recipe.optimizer),
                  .batches = whole_batches([&layout](int64_t step) { return batch_of(step, layout.global_batch); }),
                  .steps = kSteps}};
  compared.layout.options.program = memory.plan.program;
  compared.layout.options.program_is_verified = true;
  const LayoutComparison comparison = compare_layouts(world, compared);
  const std::vector<CheckedMemory> of_ranks = memory_of_ranks(checked, recipe, world, device, memory);
  return world.rank() == 0 ? layout_line(checked.name, comparison, of_ranks) : CheckLine{};
}

std::string CheckedMemory::off() const {
  const double least = kOfSum * static_cast<double>(sum_of(forecast));
  std::vector<std::string> causes;
  for (size_t i = 0; i < forecast.size(); ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    const double slack = std::max(kTolerance * static_cast<double>(forecast[i]), least);
    const double more = category == MemoryCategory::activations ? static_cast<double>(extra) : 0.0;
    const auto beyond = static_cast<double>(measured[i] - forecast[i]);
    if (beyond >= -slack && beyond <= slack + more) continue;
    causes.push_back(
        fmt::format("{} take {}, forecast {}", name(category), format_bytes(measured[i]), format_bytes(forecast[i])));
  }
  return fmt::format("{}", fmt::join(causes, ", "));
}

std::string CheckedMemory::text() const {
  return fmt::format("{}, forecast {}", format_bytes(sum_of(measured)), format_bytes(sum_of(forecast)));
}

CheckLine layout_line(const std::string& name, const LayoutComparison& comparison, const std::vector<CheckedMemory>& of_ranks) {
  const std::string line = "layout " + name;
  if (comparison.match == LayoutMatch::different) {
    return check_failed(
        line, difference_line(comparison),
        "run weft check again: a fault of the machine comes and goes or stays on one host; report any other as a bug");
  }
  std::string text = match_text(comparison);
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::string off = of_ranks[rank].off();
    if (off.empty()) continue;
    return check_failed(line, fmt::format("{}, but memory of rank {} is not as forecast: {}", text, rank, off),
                        "report a bug: weft memory and weft simulate are wrong here");
  }
  if (of_ranks.empty()) return check_ok(line, text + "; memory not measured on this device");
  const auto by_measured = [](const auto& a, const auto& b) { return sum_of(a.measured) < sum_of(b.measured); };
  return check_ok(line, fmt::format("{}; {}", text, std::max_element(of_ranks.begin(), of_ranks.end(), by_measured)->text()));
}

}  // namespace weft
