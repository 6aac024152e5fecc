#include "weft/plan/search/search_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "weft/base/divisors.h"
#include "weft/base/error.h"
#include "weft/recipe/read/recipe_keys.h"

namespace weft {

namespace {

constexpr int64_t kLeastTokens = 1024;  ///< per rank of cp: fewer leave communication that attention cannot hide
constexpr int kMostContext = 8;         ///< ranks of cp that are tried in any case

std::vector<int> divisors_up_to(int number, int64_t most) {
  std::vector<int> result = divisors(number);
  std::erase_if(result, [most](int d) { return d > most; });
  return result;
}

/// Keys whose values stay.
class Kept {
 public:
  explicit Kept(const std::vector<std::string>& keys) : keys_(keys) {}

  bool has(std::string_view key) const { return std::find(keys_.begin(), keys_.end(), key) != keys_.end(); }

  /// The recipe's value if the key is kept, else all.
  template <class T>
  std::vector<T> or_all(std::string_view key, const T& value, std::vector<T> all) const {
    return has(key) ? std::vector<T>{value} : std::move(all);
  }

 private:
  const std::vector<std::string>& keys_;
};

std::vector<RecomputeChoice> recompute_choices(const LayoutRecipe& layout, const SpaceFacts& facts, const Kept& kept) {
  const int every = static_cast<int>(layout.recompute_every);
  std::vector<RecomputeChoice> result;
  const auto add = [&](const RecomputeChoice& choice, std::string_view kind) {
    if (!kept.has("layout.recompute") || layout.recompute == kind) result.push_back(choice);
  };
  add({}, "none");
  if (facts.recomputes_attention || layout.recompute == "attention") add({.attention = true}, "attention");
  for (const int k : kept.or_all("layout.recompute_every", every, {4, 2, 1})) {
    if (k < facts.blocks) add({.every = k}, "blocks");
  }
  return result;
}

std::vector<int64_t> micro_batches(const Recipe& recipe, const Hardware& hardware, const SpaceFacts& facts, const Kept& kept) {
  const bool is_kept = kept.has("batch.micro") && recipe.batch.micro;
  if (is_kept) check_micro_batch(hardware, *recipe.batch.micro);
  if (facts.micro) return {*facts.micro};
  if (is_kept) return {*recipe.batch.micro};
  const std::vector<int> all = divisors(static_cast<int>(recipe.batch.global));
  return {all.begin(), all.end()};
}

void set_pipeline(SearchSpace& space, const SpaceFacts& facts, const Kept& kept) {
  LayoutRecipe& layout = space.base.layout;
  space.pp = kept.or_all("layout.pp", static_cast<int>(layout.pp), divisors_up_to(space.world, facts.blocks));
  space.schedules =
      kept.or_all("layout.schedule", layout.schedule, {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "naive"});
  for (const std::string& name : space.schedules) {
    if (name != "auto" && name != "csv") continue;
    throw InputError(
        fmt::format("keep: layout.schedule = \"{}\" is not known before a layout is; keep another, or none", name));
  }
  if (kept.has("layout.stage_gb") && layout.stage_gb > 0.0) {
    throw InputError("keep: layout.stage_gb is not kept by a search, whose memory limit holds for all ranks; leave it out");
  }
  layout.stage_gb = 0.0;
  space.chunks = kept.or_all("layout.chunks", static_cast<int>(layout.chunks), {2, 4});
  space.stages = kept.or_all("layout.stages", layout.stages, {"auto", "even"});
}

void set_states(SearchSpace& space, const Hardware& hardware, const Kept& kept) {
  const LayoutRecipe& layout = space.base.layout;
  const ShardLevel level = kShardLevels.value_of(layout.shard_level, "layout.shard_level");
  space.levels = kept.or_all("layout.shard_level", level,
                             {ShardLevel::none, ShardLevel::optimizer, ShardLevel::gradients, ShardLevel::parameters});
  space.reshard = kept.or_all("layout.reshard_after_forward", layout.reshard_after_forward, {true, false});
  space.prefetch = kept.or_all("layout.prefetch", static_cast<int>(layout.prefetch), {1, 2});
  if (kept.has("layout.dp")) space.dp = layout.dp;
  if (kept.has("layout.shard")) space.shard = layout.shard;
  if (kept.has("layout.inner_shards")) space.inner = layout.inner_shards;
  space.ranks_per_host = hardware.ranks_per_host;
  if (planned_device(space.base) == TargetDevice::cpu) space.offload_to = "disk";
  space.offloads = hardware.offload.is_known && hardware.offload.bytes_per_s < kFree;
  space.keeps_optimizer = kept.has("layout.offload_optimizer");
  space.keeps_parameters = kept.has("layout.offload_parameters");
  space.keeps_activations = kept.has("layout.offload_activations");
  space.kept_offload = {.offload_optimizer = space.keeps_optimizer && layout.offload_optimizer != "none",
                        .offload_parameters = space.keeps_parameters && layout.offload_parameters != "none",
                        .offload_activations = space.keeps_activations && layout.offload_activations != "none"};
}

}  // namespace

std::string why_not_kept(const std::string& key) {
  Recipe any;
  const std::vector<FileKey> known = recipe_keys(any);
  const bool is_known = std::any_of(known.begin(), known.end(), [&](const FileKey& each) { return each.is(key); });
  return is_known ? "" : unknown_key(key, known);
}

SearchSpace search_space(const Recipe& recipe, int world, const Hardware& hardware, const SpaceFacts& facts,
                         const std::vector<std::string>& keys, const std::vector<std::string>& varied) {
  for (const std::string& key : keys) {
    if (const std::string why = why_not_kept(key); !why.empty()) throw InputError("keep: " + why);
  }
  for (const std::string& key : varied) {
    if (key != kVariedKey) throw InputError(fmt::format("vary: '{}' cannot be varied; \"{}\" can", key, kVariedKey));
  }
  const Kept kept(keys);
  SearchSpace space{.base = recipe, .world = world};
  LayoutRecipe& layout = space.base.layout;
  layout.style = LayoutRecipe().style;
  const Precision precision = kPrecisions.value_of(layout.precision, "layout.precision");
  space.precision = varied.empty() ? std::vector{precision} : std::vector{Precision::fp32, Precision::bf16};
  space.micro = micro_batches(recipe, hardware, facts, kept);
  space.tp = kept.or_all("layout.tp", static_cast<int>(layout.tp), divisors(world));
  const int most_cp = facts.tokens == 0 ? 1 : std::max<int>(kMostContext, static_cast<int>(facts.tokens / kLeastTokens));
  space.cp = kept.or_all("layout.cp", static_cast<int>(layout.cp), divisors_up_to(world, most_cp));
  space.sequence_parallel = kept.or_all("layout.sequence_parallel", layout.sequence_parallel,
                                        facts.tokens > 0 ? std::vector{false, true} : std::vector{false});
  space.attention_over =
      kept.or_all("layout.context_attention", kContextMethods.value_of(layout.context_attention, "layout.context_attention"),
                  {ContextMethod::ring, ContextMethod::all_to_all});
  space.recompute = recompute_choices(layout, facts, kept);
  set_pipeline(space, facts, kept);
  set_states(space, hardware, kept);
  return space;
}

std::vector<std::string> lines_of(const SearchSpace& space) {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view key, const auto& values) {
    lines.push_back(fmt::format("{}: {}", key, fmt::join(values, ", ")));
  };
  const auto names = [](const auto& values, const auto& table) {
    std::vector<std::string_view> result;
    result.reserve(values.size());
    for (const auto& value : values) result.push_back(table.of(value));
    return result;
  };
  std::vector<std::string> recompute;
  recompute.reserve(space.recompute.size());
  for (const auto& [attention, every] : space.recompute) {
    recompute.push_back(every > 1    ? fmt::format("every {} blocks", every)
                        : every == 1 ? "all blocks"
                        : attention  ? "attention"
                                     : "none");
  }
  add("batch.micro", space.micro);
  add("layout.tp", space.tp);
  add("layout.sequence_parallel, with tp", space.sequence_parallel);
  add("layout.cp", space.cp);
  add("layout.context_attention, with cp", names(space.attention_over, kContextMethods));
  add("layout.precision", names(space.precision, kPrecisions));
  add("layout.recompute", recompute);
  add("layout.pp", space.pp);
  add("layout.schedule, with pp", space.schedules);
  add("layout.chunks, interleaved", space.chunks);
  add("layout.stages, with pp", space.stages);
  add("layout.shard_level", names(space.levels, kShardLevels));
  lines.push_back("layout.dp, layout.shard: all divisors of the ranks left");
  add("layout.reshard_after_forward, parameters", space.reshard);
  lines.push_back("layout.inner_shards, parameters: 0, the shards of a host");
  add("layout.prefetch, gradients and parameters", space.prefetch);
  if (space.offloads)
    lines.push_back(fmt::format("layout.offload_*: {}, of layouts that do not fit without", space.offload_to));
  return lines;
}

}  // namespace weft
