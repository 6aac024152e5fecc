// Programs of random models and layouts: any mesh of pp x dp x shard, any schedule, level, slots, recompute, offload.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/program/pipeline/schedule_table.h"
#include "tests/support/seeds.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"

namespace weft {

struct RandomLayout {
  ModelCost model;
  StepLayout layout;
};

inline ModelCost random_model(test::Random& random, int num_blocks) {
  ModelCost model = random.one_in(2) ? toy_model(num_blocks) : splittable(toy_model(num_blocks));
  for (BlockCost& block : model.blocks) {
    block.numel = random.one_in(4) ? 0 : 64 * (1 + random.below(40));
    if (random.one_in(6)) block.splits = false;
  }
  model.blocks[random.below(num_blocks)].numel = 640;  // a model without parameters would hide defects
  const int ties = num_blocks > 1 && random.one_in(3) ? 1 + random.below(2) : 0;
  for (int i = 0; i < ties; ++i) {  // at the ends or elsewhere
    const int reader = random.one_in(2) ? num_blocks - 1 : 1 + random.below(num_blocks - 1);
    const int used = random.below(reader);
    std::vector<int>& uses = model.blocks[reader].uses;
    const bool chained = !model.blocks[used].uses.empty();  // tied weights belong to a block that has its own
    if (!chained && std::count(uses.begin(), uses.end(), used) == 0) uses.push_back(used);
  }
  return model;
}

// Stages that begin at random blocks.
inline std::vector<int> random_cut(test::Random& random, int blocks, int stages) {
  std::vector<int> inner(blocks - 1);
  std::iota(inner.begin(), inner.end(), 1);
  while (static_cast<int>(inner.size()) > stages - 1) inner.erase(inner.begin() + random.below(static_cast<int>(inner.size())));
  inner.insert(inner.begin(), 0);
  return inner;
}

// The same, without features that a master excludes.
inline StepLayout with_master(StepLayout layout, int pp, test::Random& random) {
  layout.pp = pp;
  layout.master = true;
  layout.dp = layout.shard = layout.inner_shards = 1;
  layout.shard_level = ShardLevel::none;
  layout.offload = {};
  layout.noise_scale = false;
  layout.micro_batches = pp * layout.slots * (1 + random.below(2));
  return layout;
}

inline RandomLayout random_layout(test::Random& random) {
  const int pp = random.of<int>({1, 1, 2, 2, 3, 4});
  const NamedSchedule& schedule = random.of(schedule_table());
  const int slots = 1 << random.of<int>({0, 0, 1, 2, 3});
  const int unit = schedule.multiple_of_ranks ? std::lcm(slots, pp) : slots;
  int micro_batches = unit * (1 + random.below(3));
  while (micro_batches < pp) micro_batches += unit;
  const bool has_pipeline = pp > 1 || random.one_in(2);  // otherwise one micro-batch at a time
  const int stages = has_pipeline ? pp * schedule.chunks : 1;
  const int num_blocks = stages + random.below(6);
  const auto level = static_cast<ShardLevel>(random.below(4));
  const int shard = 1 + random.below(4);
  const bool reshard = !random.one_in(3);
  StepLayout layout = {
      .dp = 1 + random.below(3),
      .shard = shard,
      .shard_level = level,
      .reshard_after_forward = reshard,
      .inner_shards = shard % 2 == 0 && random.one_in(3) ? 2 : 1,
      .prefetch = random.below(4),
      .gathered_bytes = random.one_in(3) ? 1 + random.below(40000) : 0,
      .recompute = {.every = random.below(4)},
      .offload = {.activations = random.one_in(2),
                  .optimizer = random.one_in(2),
                  .weights = level == ShardLevel::parameters && random.one_in(2),
                  .beside = {.activations = random.one_in(2), .optimizer = random.one_in(2), .weights = random.one_in(2)}},
      .weight_bytes = 2 << random.below(2),
      .gradient_bytes = 2 << random.below(2),
      .keep_order = slots > 1 || random.one_in(3),
      .check_finite = random.one_in(4),
      .slots = slots,
      .bucket_bytes = 1 + random.below(20000),
      .clip = random.one_in(2),
      .noise_scale = random.one_in(3)};
  layout.micro_batches = micro_batches;
  if (pp > 1 && random.one_in(4)) return {random_model(random, num_blocks), with_master(layout, pp, random)};
  if (has_pipeline) {
    layout = pipelined(layout, schedule, pp, micro_batches);
    if (random.one_in(2)) layout.first_block = random_cut(random, num_blocks, stages);
  }
  RandomLayout result{random_model(random, num_blocks), layout};
  if (random.one_in(3)) {
    for (BlockCost& block : result.model.blocks) block.gathered_gradient_bytes = random.of<int>({0, 2, 4});
  }
  result.model.head_takes_targets = random.one_in(4);
  return result;
}

/// Removes options that are rightly refused: a limit below some block's need, ties of stages with slots or the noise scale.
inline Program build_random(RandomLayout x) {
  const auto try_again = [&](const auto& without) {
    try {
      build_program(x.model, x.layout);
    } catch (const InputError&) {
      without();
    }
  };
  try_again([&] { x.layout.gathered_bytes = 0; });
  try_again([&] {
    for (BlockCost& block : x.model.blocks) block.uses.clear();
  });
  return build_program(x.model, x.layout);
}

inline std::string text(const StepLayout& x) {
  std::string beside;
  for (const Payload what : {Payload::input, Payload::optimizer, Payload::weights}) {
    if (x.offload.is_beside(what)) beside += fmt::format(", {} beside", name(what));
  }
  return fmt::format(
      "{} on {} x {} x {} ranks, level {}, {} micro-batches, {} slots, recompute {}, prefetch {}, inner {}{}{}{}{}{}{}{}",
      x.master                  ? "a master"
      : x.schedule.name.empty() ? "one stage"
                                : x.schedule.name,
      x.pp, x.dp, x.shard, name(x.shard_level), x.micro_batches, x.slots, x.recompute.every, x.prefetch, x.inner_shards,
      x.offload.activations ? ", activations out" : "", x.offload.optimizer ? ", optimizer out" : "",
      x.offload.weights ? ", weights out" : "", beside, x.keep_order ? ", in order" : "", x.clip ? ", clipped" : "",
      x.noise_scale ? ", noise scale" : "");
}

}  // namespace weft
