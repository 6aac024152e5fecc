#include "weft/train/check/layout_checks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "weft/base/units.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/check/gathered_texts.h"
#include "weft/train/compare/batch_source.h"
#include "weft/train/compare/compare_layouts.h"
#include "weft/train/compare/comparison_text.h"
#include "weft/train/measure/step_memory.h"
#include "weft/train/run/options_of_recipe.h"

namespace weft {

namespace {

constexpr double kTolerance = 0.05;
constexpr int64_t kSteps = 2;
constexpr int64_t kContext = 32, kTokens = 256;

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

CheckLine comparison_line(const std::string& name, const LayoutComparison& comparison) {
  const std::string line = "layout " + name;
  if (comparison.match == LayoutMatch::different) {
    return check_failed(
        line, difference_line(comparison),
        "run it again: a difference that comes and goes is a fault of the machine, one that stays a bug to report");
  }
  const Deviation* largest = comparison.largest();
  std::string text = fmt::format("{}: {} to one device", comparison.layout, weft::name(comparison.match));
  if (largest != nullptr) text += fmt::format(", {:.1e} of a weight at most", largest->relative);
  return check_ok(line, text);
}

CategoryBytes bytes_of(const nlohmann::json& json) { return json.get<CategoryBytes>(); }

/// The line of the rank whose memory is farthest from its forecast.
CheckLine worst_line(const std::string& name, const std::vector<std::string>& texts) {
  CheckLine worst;
  double farthest = -1.0;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const nlohmann::json json = nlohmann::json::parse(texts[rank]);
    const CategoryBytes forecast = bytes_of(json.at("forecast")), measured = bytes_of(json.at("measured"));
    const auto sum = [](const CategoryBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), 0.0); };
    CheckLine line = memory_line(name, forecast, measured, json.at("extra"));
    line.text = fmt::format("rank {}: {}", rank, line.text);
    const double off = std::abs(sum(measured) / sum(forecast) - 1.0) + (line.verdict == CheckVerdict::failed ? 1.0 : 0.0);
    if (off <= farthest) continue;
    farthest = off;
    worst = line;
  }
  return worst;
}

CheckLine check_step_memory(const CheckedLayout& checked, const Recipe& recipe, const World& world, at::Device device,
                            const RecipeMemory& memory) {
  const std::string name = "memory " + checked.name;
  if (!device.is_cpu()) return not_checked(name, "bytes are counted by category on CPUs");
  const ResolvedLayout& layout = memory.plan.layout;
  const Mesh mesh(world, mesh_axes(layout));
  const auto stage = static_cast<size_t>(mesh.coordinate("pp"));
  const MemoryEstimate& forecast = memory.by_stage_rank.at(std::min(stage, memory.by_stage_rank.size() - 1));
  const TrainerOptions options = trainer_options(recipe, layout, device);
  const CategoryBytes measured =
      step_memory(recipe, layout, world, rank_share(batch_of(0, layout.global_batch), layout, world), options.communication);
  const nlohmann::json own = {
      {"forecast", forecast.peak}, {"measured", measured}, {"extra", packed_for_products(recipe, layout)}};
  const std::vector<std::string> texts = gathered_texts(world, name, own.dump(), options.communication.timeout * world.size());
  return world.rank() == 0 ? worst_line(name, texts) : CheckLine{};
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
      {"tp", R"(tp = 2, sequence_parallel = true)", 2},
      {"cp", R"(cp = 2, context_attention = "ring")", 2},
      {"offload", R"(shard_level = "optimizer", offload_optimizer = "disk")"},
      {"recompute", R"(recompute = "blocks")"},
      {"bf16", R"(shard_level = "gradients", precision = "bf16")"},
      {"mixture", R"(pp = 2, schedule = "1f1b", shard_level = "parameters", recompute = "blocks", precision = "bf16")", 2},
  };
  return layouts;
}

Recipe recipe_of(const CheckedLayout& layout, int ranks, const std::string& device, std::chrono::milliseconds timeout) {
  const bool is_power = (ranks & (ranks - 1)) == 0;
  return parse_recipe(fmt::format(R"(
    model = {{ name = "gpt", layers = 2, heads = 4, width = 64, context = {} }}
    data = {{ name = "text", path = "none.txt" }}
    batch = {{ global = {}, micro = 1 }}
    layout = {{ {} }}
    optimizer = {{ name = "adamw", lr = 1e-3, clip = 1.0 }}
    run = {{ steps = {}, threads = 1, reproducible_slots = {}, device = "{}", timeout_s = {} }}
  )",
                                  kContext, 2 * std::max(ranks, 2), layout.keys, kSteps, is_power ? std::max(ranks, 2) : 0,
                                  device, std::chrono::duration<double>(timeout).count()),
                      "weft check, layout " + layout.name);
}

std::vector<CheckLine> check_layout(const CheckedLayout& checked, const Recipe& recipe, const World& world, at::Device device) {
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
  const CheckLine of_memory = check_step_memory(checked, recipe, world, device, memory);
  if (world.rank() != 0) return {};
  return {comparison_line(checked.name, comparison), of_memory};
}

CheckLine memory_line(const std::string& name, const CategoryBytes& forecast, const CategoryBytes& measured, int64_t extra) {
  const int64_t sum = std::accumulate(forecast.begin(), forecast.end(), int64_t{0});
  const int64_t held = std::accumulate(measured.begin(), measured.end(), int64_t{0});
  std::string cause;
  for (size_t i = 0; i < forecast.size(); ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    const double slack =
        std::max(kTolerance * static_cast<double>(forecast[i]), kTolerance * kTolerance * static_cast<double>(sum));
    const double more = category == MemoryCategory::activations ? static_cast<double>(extra) : 0.0;
    const auto off = static_cast<double>(measured[i] - forecast[i]);
    if (off >= -slack && off <= slack + more) continue;
    cause += fmt::format("{}{} take {}, forecast {}", cause.empty() ? "" : "; ", weft::name(category),
                         format_bytes(measured[i]), format_bytes(forecast[i]));
  }
  if (!cause.empty()) return check_failed(name, cause, "report a bug: forecasts of weft memory and weft simulate are off here");
  return check_ok(name, fmt::format("measured {}, forecast {} ({:+.1f} %)", format_bytes(held), format_bytes(sum),
                                    100.0 * (static_cast<double>(held) / static_cast<double>(sum) - 1.0)));
}

}  // namespace weft
