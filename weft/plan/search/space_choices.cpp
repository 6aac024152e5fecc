// The layouts of a search space, one key at a time.
#include <algorithm>
#include <utility>

#include "weft/base/divisors.h"
#include "weft/plan/search/search_space.h"

namespace weft {

namespace {

/// Sizes of dp and shard that the space has for these ranks.
std::vector<std::pair<int, int>> data_axes(const SearchSpace& space, int ranks, bool sharded) {
  std::vector<std::pair<int, int>> result;
  const auto add = [&](int shard) {
    const bool kept = (!space.dp || *space.dp == ranks / shard) && (!space.shard || *space.shard == shard);
    if (kept) result.emplace_back(ranks / shard, shard);
  };
  if (!sharded) {
    const int64_t shard = space.shard.value_or(1);
    if (ranks % shard == 0) add(static_cast<int>(shard));
    return result;
  }
  for (const int shard : divisors(ranks)) {
    if (shard > 1) add(shard);
  }
  return result;
}

/// Values of inner_shards for so many shards: 0, and the shards of a host.
std::vector<int> inner_shards(const SearchSpace& space, int shard, int ranks_beside) {
  if (space.inner) {
    const auto inner = static_cast<int>(*space.inner);
    return inner > 0 && shard % inner != 0 ? std::vector<int>() : std::vector{inner};
  }
  std::vector<int> result = {0};
  const int on_host = space.ranks_per_host / ranks_beside;
  if (on_host > 1 && on_host < shard && shard % on_host == 0) result.push_back(on_host);
  return result;
}

void add_parameters(const SearchSpace& space, StateChoice choice, int ranks_beside, std::vector<StateChoice>& result) {
  for (const bool reshard : space.reshard) {
    choice.reshard = reshard;
    for (const int inner : inner_shards(space, choice.shard, ranks_beside)) {
      if (inner > 0 && !reshard) continue;
      choice.inner_shards = inner;
      for (const int prefetch : space.prefetch) {
        choice.prefetch = prefetch;
        result.push_back(choice);
      }
    }
  }
}

}  // namespace

std::vector<BlockChoice> block_choices(const SearchSpace& space) {
  std::vector<BlockChoice> result;
  const auto add = [&](BlockChoice choice) {
    for (const RecomputeChoice& recompute : space.recompute) {
      choice.recompute = recompute;
      for (const int64_t micro : space.micro) {
        choice.micro = micro;
        result.push_back(choice);
      }
    }
  };
  const std::vector<bool> whole = {false};
  const std::vector<ContextMethod> no_method = {ContextMethod::automatic};
  for (const Precision precision : space.precision) {
    for (const int tp : space.tp) {
      for (const int cp : space.cp) {
        if (space.world % (int64_t{tp} * cp) != 0) continue;
        for (const bool sequence : tp > 1 ? space.sequence_parallel : whole) {
          for (const ContextMethod method : cp > 1 ? space.attention_over : no_method) {
            add({.tp = tp, .cp = cp, .sequence_parallel = sequence, .attention_over = method, .precision = precision});
          }
        }
      }
    }
  }
  return result;
}

std::vector<PipelineChoice> pipeline_choices(const SearchSpace& space, const BlockChoice& blocks) {
  std::vector<PipelineChoice> result;
  for (const int pp : space.pp) {
    if (space.world % (int64_t{pp} * blocks.tp * blocks.cp) != 0) continue;
    if (pp == 1) {
      result.push_back({});
      continue;
    }
    for (int schedule = 0; schedule < static_cast<int>(space.schedules.size()); ++schedule) {
      const bool takes_chunks = space.schedules[schedule] == "interleaved";
      for (const int chunks : takes_chunks ? space.chunks : std::vector<int>{0}) {
        for (int stages = 0; stages < static_cast<int>(space.stages.size()); ++stages) {
          result.push_back({.pp = pp, .schedule = schedule, .chunks = chunks, .stages = stages});
        }
      }
    }
  }
  return result;
}

std::vector<StateChoice> state_choices(const SearchSpace& space, const BlockChoice& blocks, const PipelineChoice& pipeline) {
  std::vector<StateChoice> result;
  const int beside = blocks.tp * blocks.cp, ranks = space.world / (pipeline.pp * beside);
  for (const ShardLevel level : space.levels) {
    if (space.kept_offload.offload_parameters && level != ShardLevel::parameters) continue;  // which offloads shards
    for (const auto& [dp, shard] : data_axes(space, ranks, level != ShardLevel::none)) {
      StateChoice choice = space.kept_offload;
      choice.dp = dp;
      choice.shard = shard;
      choice.level = level;
      if (level == ShardLevel::parameters) {
        add_parameters(space, choice, beside, result);
        continue;
      }
      for (const int prefetch : level == ShardLevel::gradients ? space.prefetch : std::vector<int>{1}) {
        choice.prefetch = prefetch;
        result.push_back(choice);
      }
    }
  }
  return result;
}

std::vector<StateChoice> offloaded(const SearchSpace& space, const LayoutChoice& choice) {
  std::vector<StateChoice> result;
  if (!space.offloads) return result;
  const auto values = [](bool now, bool can) { return now || !can ? std::vector<bool>{now} : std::vector<bool>{false, true}; };
  const StateChoice& states = choice.states;
  for (const bool activations :
       values(states.offload_activations, !space.keeps_activations && choice.blocks.recompute.every > 0)) {
    for (const bool optimizer : values(states.offload_optimizer, !space.keeps_optimizer)) {
      for (const bool parameters :
           values(states.offload_parameters, !space.keeps_parameters && states.level == ShardLevel::parameters)) {
        StateChoice more = states;
        more.offload_activations = activations;
        more.offload_optimizer = optimizer;
        more.offload_parameters = parameters;
        if (more != states && (!parameters || optimizer || space.keeps_optimizer)) result.push_back(more);
      }
    }
  }
  return result;
}

Recipe recipe_of(const SearchSpace& space, const LayoutChoice& choice) {
  const auto& [blocks, pipeline, states] = choice;
  const auto place = [&space](bool offloads) { return offloads ? space.offload_to : "none"; };
  const LayoutRecipe plain;
  Recipe recipe = space.base;
  recipe.batch.micro = blocks.micro;
  LayoutRecipe& layout = recipe.layout;
  layout.tp = blocks.tp;
  layout.cp = blocks.cp;
  layout.sequence_parallel = blocks.sequence_parallel;
  layout.context_attention = kContextMethods.of(blocks.attention_over);
  layout.precision = kPrecisions.of(blocks.precision);
  layout.recompute = blocks.recompute.every > 0 ? "blocks" : blocks.recompute.attention ? "attention" : "none";
  layout.recompute_every = std::max(blocks.recompute.every, 1);
  layout.pp = pipeline.pp;
  layout.schedule = pipeline.pp > 1 ? space.schedules[pipeline.schedule] : plain.schedule;
  layout.chunks = pipeline.chunks > 0 ? pipeline.chunks : plain.chunks;
  layout.stages = pipeline.pp > 1 ? space.stages[pipeline.stages] : plain.stages;
  layout.dp = states.dp;
  layout.shard = states.shard;
  layout.shard_level = name(states.level);
  layout.reshard_after_forward = states.reshard;
  layout.inner_shards = states.inner_shards;
  layout.prefetch = states.prefetch;
  // Keys that other values leave without a reader.
  layout.schedule_activations = plain.schedule_activations;
  layout.schedule_file = plain.schedule_file;
  if (states.level != ShardLevel::none) layout.bucket_mb = plain.bucket_mb;
  if (states.level != ShardLevel::parameters) layout.gathered_mb = plain.gathered_mb;
  if (!space.keeps_optimizer) layout.offload_optimizer = place(states.offload_optimizer);
  if (!space.keeps_parameters) layout.offload_parameters = place(states.offload_parameters);
  if (!space.keeps_activations) layout.offload_activations = place(states.offload_activations);
  return recipe;
}

}  // namespace weft
