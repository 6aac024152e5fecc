// Bytes on the wire: the groups' counts in a step equal the program's (law 6), at every level and mesh.
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/program/cost.h"

namespace weft::traffic_test {
namespace {

struct Case {
  const char* name;
  int dp, shard;
  LayoutOptions layout;
  int64_t micro_batch = 3;
  double clip = 0.0;
  bool noise_scale = false;
  OptimizerOptions optimizer = AdamW{};
  const char* job = "gpt";
  int slots = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"replicas", 4, 1, {}},
      {"replicas_noise", 4, 1, {}, 3, 0.0, true},
      {"zero1", 1, 4, {.shard_level = ShardLevel::optimizer}},
      {"zero1_hybrid", 2, 2, {.shard_level = ShardLevel::optimizer}},
      {"zero2_accumulating", 1, 4, {.shard_level = ShardLevel::gradients}, 1},
      {"zero2_bf16_clip", 1, 2, {.shard_level = ShardLevel::gradients, .precision = Precision::bf16}, 3, 1.0},
      {"zero2_noise", 2, 2, {.shard_level = ShardLevel::gradients}, 1, 0.0, true},
      {"zero3", 1, 4, {.shard_level = ShardLevel::parameters}},
      {"zero3_accumulating", 1, 2, {.shard_level = ShardLevel::parameters}, 1},
      {"zero3_hybrid_clip", 2, 2, {.shard_level = ShardLevel::parameters}, 3, 1.0},
      {"zero3_inner", 1, 4, {.shard_level = ShardLevel::parameters, .inner_shards = 2}},
      {"zero3_kept", 1, 4, {.shard_level = ShardLevel::parameters, .reshard_after_forward = false}},
      {"zero3_bf16_recompute",
       1,
       4,
       {.shard_level = ShardLevel::parameters, .recompute_every = 1, .precision = Precision::bf16, .reduce_in_fp32 = true}},
      {"zero1_muon", 1, 4, {.shard_level = ShardLevel::optimizer}, 3, 0.0, false, Muon{}},
      {"zero2_muon", 2, 2, {.shard_level = ShardLevel::gradients, .precision = Precision::bf16}, 3, 1.0, false, Muon{}},
      {"zero3_muon", 1, 2, {.shard_level = ShardLevel::parameters}, 1, 0.0, false, Muon{}},
      {"zero1_adafactor", 2, 2, {.shard_level = ShardLevel::optimizer}, 3, 0.0, false, Adafactor{}},
      {"zero3_adafactor_bf16",
       1,
       4,
       {.shard_level = ShardLevel::parameters, .precision = Precision::bf16},
       3,
       0.0,
       false,
       Adafactor{}},
      {"replicas_muon", 2, 1, {}, 3, 0.0, false, Muon{}},
      {.name = "tied_slots", .dp = 4, .shard = 1, .layout = {}, .job = "tied_gpt", .slots = 4},
      {.name = "tied_slots_zero2_hybrid",
       .dp = 2,
       .shard = 2,
       .layout = {.shard_level = ShardLevel::gradients},
       .job = "tied_gpt",
       .slots = 4},
  };
  return all;
}

class TrafficTest : public ::testing::TestWithParam<Case> {};

TEST_P(TrafficTest, CountedIsAsDeclared) {
  const Case& c = GetParam();
  const int ranks = c.dp * c.shard;
  const Job& gpt = job(c.job);
  test::run_ranks(ranks, [&](World world) {
    Trainer trainer(Mesh(world, {{"dp", c.dp}, {"shard", c.shard}}), gpt.model(), c.optimizer,
                    {.global_batch = kGlobalBatch,
                     .micro_batch = c.micro_batch,
                     .clip = c.clip,
                     .reproducible_slots = c.slots,
                     .noise_scale = c.noise_scale,
                     .layout = c.layout});
    trainer.start();
    const int64_t share = kGlobalBatch / ranks;
    const auto sent = [&trainer] {
      int64_t bytes = 0;
      for (const Group& group : trainer.groups()) bytes += group.traffic().bytes;
      return bytes;
    };
    const int64_t declared = step_cost(trainer.program().of(world.rank())).wire_bytes();
    for (const int64_t step : {0, 1}) {
      const int64_t before = sent();
      trainer.step(slice(gpt.batch_of(step), world.rank() % ranks * share, share));
      // Before the first step, what losses are scaled by.
      const int64_t agreement = step == 0 && world.rank() == 0 && ranks > 1 ? 8 : 0;
      EXPECT_EQ(sent() - before, declared + agreement) << "step " << step;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, TrafficTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::traffic_test
