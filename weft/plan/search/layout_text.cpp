#include "weft/plan/search/layout_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/base/units.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/read/recipe_values.h"

namespace weft {

namespace {

std::string mesh_text(const LayoutRecipe& recipe, const ResolvedLayout& layout) {
  std::vector<std::string> axes;
  if (layout.pp > 1) {
    const bool chunked = recipe.schedule == "interleaved";
    axes.push_back(
        fmt::format("pp {} ({}{})", layout.pp, recipe.schedule, chunked ? fmt::format(", {} chunks", recipe.chunks) : ""));
  }
  for (const auto& [name, size] : {std::pair("dp", layout.dp), {"shard", layout.shard}, {"cp", layout.cp}, {"tp", layout.tp}}) {
    if (size > 1) axes.push_back(fmt::format("{} {}", name, size));
  }
  return axes.empty() ? "one rank" : fmt::format("{}", fmt::join(axes, " x "));
}

std::string recompute_text(const LayoutOptions& options) {
  if (options.recompute_parts) return "recompute attention";
  if (options.recompute_every == 0) return "";
  return options.recompute_every == 1 ? "recompute all blocks"
                                      : fmt::format("recompute every {} blocks", options.recompute_every);
}

void add_states(const LayoutRecipe& recipe, const LayoutOptions& options, std::vector<std::string>& parts) {
  if (options.shard_level != ShardLevel::none) parts.push_back(fmt::format("ZeRO-{}", static_cast<int>(options.shard_level)));
  if (options.shard_level == ShardLevel::parameters && !options.reshard_after_forward) {
    parts.emplace_back("weights kept until backward");
  }
  if (options.inner_shards > 0) parts.push_back(fmt::format("inner shards {}", options.inner_shards));
  if (options.prefetch > 1) parts.push_back(fmt::format("prefetch {}", options.prefetch));
  for (const auto& [what, where] : {std::pair("optimizer state", recipe.offload_optimizer),
                                    {"weights", recipe.offload_parameters},
                                    {"activations", recipe.offload_activations}}) {
    if (where != "none") parts.push_back(fmt::format("{} on {}", what, where));
  }
}

}  // namespace

std::string layout_text(const Recipe& recipe, const ResolvedLayout& layout) {
  const LayoutOptions& options = layout.options;
  std::vector<std::string> parts = {mesh_text(recipe.layout, layout)};
  if (layout.tp > 1 && options.sequence_parallel) parts.emplace_back("sequence parallel");
  if (layout.cp > 1) parts.push_back(fmt::format("attention by {}", kContextMethods.of(options.attention_over)));
  add_states(recipe.layout, options, parts);
  parts.push_back(fmt::format("{} of {}", counted(layout.micro_batches, "micro-batch", "es"), layout.micro_batch));
  if (const std::string recompute = recompute_text(options); !recompute.empty()) parts.push_back(recompute);
  if (layout.pp > 1 && recipe.layout.stages != "auto") parts.push_back(fmt::format("stages {}", recipe.layout.stages));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<KeyValue> layout_keys_of(const Recipe& recipe) {
  Recipe own = recipe, plain = recipe;
  plain.layout = {};
  plain.batch.micro = {};
  const std::vector<FileKey> plain_keys = recipe_keys(plain);
  std::vector<KeyValue> result;
  size_t i = 0;
  for (const FileKey& key : recipe_keys(own)) {
    const std::string value = value_text(key.target);
    if (value != value_text(plain_keys[i++].target)) result.push_back({key.dotted(), value});
  }
  return result;
}

Approach approach_of(const MeshSizes& mesh, ShardLevel level) {
  const bool divides = mesh.tp > 1 || mesh.cp > 1;
  if (mesh.pp > 1) return divides ? Approach::hybrid : Approach::pipeline;
  if (divides) return Approach::tensor;
  if (mesh.dp * mesh.shard == 1) return Approach::single_device;
  if (mesh.shard == 1 || level == ShardLevel::none) return Approach::replicas;
  return level == ShardLevel::parameters ? Approach::sharded : Approach::sharded_states;
}

Approach approach_of(const ResolvedLayout& layout) {
  return approach_of({.pp = layout.pp, .dp = layout.dp, .shard = layout.shard, .cp = layout.cp, .tp = layout.tp},
                     layout.options.shard_level);
}

}  // namespace weft
