#include "weft/plan/search/layout_bounds.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/plan/layout/resolve.h"

namespace weft {

namespace {

constexpr double kSurely = 1.0 - 1e-9;  ///< bounds are sums in another order than the simulation's

/// Ranks that share the cores of their host are not slowed down by collectives (simulate/events.cpp).
double taken_from_compute(const Hardware& hardware) {
  return hardware.collectives && hardware.cores.per_host == 0 ? hardware.collectives->taken_from_compute : 0.0;
}

BlockChoice family_of(BlockChoice blocks) {
  blocks.micro = 0;
  blocks.recompute = {};
  return blocks;
}

}  // namespace

CountedChoice LayoutBounds::counted(const LayoutChoice& choice) const {
  const Recipe recipe = recipe_of(space_, choice);
  const int count = resolve(recipe, space_.world).micro_batches;
  for (const BatchPhase& phase : recipe.batch.ramp) {
    Recipe alone = recipe;
    alone.batch.global = phase.global_batch;
    alone.batch.ramp.clear();
    resolve(alone, space_.world);
  }
  return {.choice = choice, .micro_batches = count};
}

bool LayoutBounds::is_refused(BlockChoice blocks) const { return refused_.contains(family_of(blocks)); }

/// A model that cannot be divided like this cannot with another micro-batch or recompute either.
const BlockFacts& LayoutBounds::blocks(const LayoutChoice& choice) {
  const BlockChoice family = family_of(choice.blocks);
  const auto refused = refused_.find(family);
  if (refused != refused_.end()) return refused->second;
  const BlockFacts& facts = blocks_.at(choice.blocks, choice);
  if (facts.cost == nullptr) refused_.emplace(family, facts);
  return facts;
}

const ScheduleFacts& LayoutBounds::schedule(const CountedChoice& layout) {
  const PipelineChoice& pipeline = layout.choice.pipeline;
  return schedules_.at(space_.schedules[pipeline.schedule], pipeline.pp, pipeline.chunks, layout.micro_batches);
}

std::string LayoutBounds::why_no_pipeline(const CountedChoice& layout) {
  if (layout.choice.pipeline.pp == 1) return {};
  const ScheduleFacts& facts = schedule(layout);
  if (!facts.why_not.empty()) return facts.why_not;
  return blocks_.cut(layout.choice, facts.schedule.num_stages()).why_not;
}

bool LayoutBounds::repeats_stages(const CountedChoice& layout) {
  if (layout.choice.pipeline.pp == 1) return false;
  const int stages = schedule(layout).schedule.num_stages();
  const Found<std::vector<int>>& cut = blocks_.cut(layout.choice, stages);
  LayoutChoice other = layout.choice;
  for (other.pipeline.stages = 0; other.pipeline.stages < layout.choice.pipeline.stages; ++other.pipeline.stages) {
    if (blocks_.cut(other, stages).value == cut.value) return true;
  }
  return false;
}

double LayoutBounds::seconds_of_blocks(const CountedChoice& layout) {
  return least_seconds(blocks(layout.choice).passes, layout.choice.pipeline.pp, layout.micro_batches) * kSurely;
}

double LayoutBounds::seconds_of_pipeline(const CountedChoice& layout) {
  double longest = 0.0;
  for (const RankBound& rank : pipeline(layout).ranks) longest = std::max(longest, rank.end_s);
  return longest * kSurely;
}

double LayoutBounds::seconds(const CountedChoice& layout) {
  return least_seconds(state_inputs(layout), layout.choice.states, rings(layout.choice)) * kSurely;
}

double LayoutBounds::refined_seconds(const CountedChoice& layout) {
  Pipeline& bounds = pipeline(layout);
  if (!bounds.is_refined) refine(pipeline_inputs(layout), bounds.ranks);
  bounds.is_refined = true;
  return seconds(layout);
}

int64_t LayoutBounds::bytes_of_blocks(const LayoutChoice& choice) {
  int64_t most = 0;
  for (const BlockCost& block : blocks(choice).cost->blocks) most = std::max(most, block.forward_peak_bytes);
  return most;
}

int64_t LayoutBounds::bytes(const CountedChoice& layout) { return least_bytes(state_inputs(layout), layout.choice.states); }

/// Between the ends of a message at the least: stages of some columns may share a host.
Link LayoutBounds::link_between_stages(int pp) const {
  if (hardware_.software) return {};  // may split messages
  const Link &inside = hardware_.intra_host, &across = hardware_.inter_host;
  if (space_.world / pp >= hardware_.ranks_per_host) return across;
  if (space_.world <= hardware_.ranks_per_host) return inside;
  return {.latency_s = std::min(inside.latency_s, across.latency_s),
          .bytes_per_s = std::max(inside.bytes_per_s, across.bytes_per_s)};
}

PipelineInputs LayoutBounds::pipeline_inputs(const CountedChoice& layout) {
  const BlockFacts& facts = blocks(layout.choice);
  const ScheduleFacts& of_schedule = schedule(layout);
  const Link link = link_between_stages(layout.choice.pipeline.pp);
  return {.cost = *facts.cost,
          .passes = facts.passes,
          .schedule = of_schedule,
          .first_block = *blocks_.cut(layout.choice, of_schedule.schedule.num_stages()),
          .micro_batches = layout.micro_batches,
          .latency_s = link.latency_s,
          .seconds_per_byte = 1.0 / link.bytes_per_s};
}

LayoutBounds::Pipeline& LayoutBounds::pipeline(const CountedChoice& layout) {
  const auto [found, is_new] = pipelines_.try_emplace({layout.choice.blocks, layout.choice.pipeline});
  if (!is_new) return found->second;
  if (layout.choice.pipeline.pp > 1) {
    found->second.ranks = pipeline_bound(pipeline_inputs(layout));
  } else {
    const BlockFacts& facts = blocks(layout.choice);
    found->second = {.ranks = bound_without_pipeline(*facts.cost, facts.passes, layout.micro_batches), .is_refined = true};
  }
  return found->second;
}

StateInputs LayoutBounds::state_inputs(const CountedChoice& layout) {
  const BlockFacts& facts = blocks(layout.choice);
  return {.cost = *facts.cost,
          .passes = facts.passes,
          .ranks = pipeline(layout).ranks,
          .weight_bytes = facts.weight_bytes,
          .gradient_bytes = facts.gradient_bytes,
          .micro_batches = layout.micro_batches,
          .offload_bytes_per_s = hardware_.offload.bytes_per_s,
          .taken_from_compute = taken_from_compute(hardware_),
          .keeps_order = facts.keeps_order};
}

const DataRings& LayoutBounds::rings(const LayoutChoice& choice) {
  static const DataRings none;
  if (hardware_.software) return none;  // may move less, and later
  const auto& [blocks, pipeline, states] = choice;
  return rings_.at({.pp = pipeline.pp, .dp = states.dp, .shard = states.shard, .cp = blocks.cp, .tp = blocks.tp},
                   states.inner_shards, states.level != ShardLevel::none);
}

}  // namespace weft
