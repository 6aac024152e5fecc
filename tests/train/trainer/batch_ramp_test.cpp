// A batch that grows in phases: parity with one device that trains the same batches by hand, the same bits on any number of
// ranks, and runs that are stopped within a phase and between two.
#include <gtest/gtest.h>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"

namespace weft::batch_ramp_test {
namespace {

constexpr int kSteps = 8;
const BatchRamp kRamp = {{4, 4}, {8, 2}};  // then 16

LayoutOptions at_level(ShardLevel level) { return {.shard_level = level}; }

Strategy ramped(Strategy strategy) {
  strategy.ramp = kRamp;
  if (strategy.micro_batch == 0) strategy.micro_batch = 1;
  return strategy;
}

struct Case {
  const char* name;
  Strategy strategy;
  int ranks;
};

const std::vector<Case>& cases() {
  using enum ShardLevel;
  static const std::vector<Case> all = {
      {"one_rank", {.micro_batch = 2}, 1},
      {"replicas", {.micro_batch = 2, .clip = 0.05}, 2},
      {"one_micro_batch_first", {}, 4},
      {"optimizer", {.spread = Spread::shard, .layout = at_level(optimizer)}, 2},
      {"gradients", {.spread = Spread::shard, .layout = at_level(gradients)}, 4},
      {"hybrid", {.spread = Spread::hybrid, .layout = at_level(parameters)}, 4},
      {"pipeline", {.pp = 2}, 2},
      {"interleaved", {.pp = 2, .layout = {.pipeline = {.schedule = "interleaved"}}}, 4},
      {"noise_scale", {.noise_scale = true}, 2},
      {"offload",
       {.spread = Spread::shard,
        .layout = {.shard_level = parameters,
                   .recompute_every = 1,
                   .offload_optimizer = Offload::disk,
                   .offload_parameters = Offload::disk,
                   .offload_activations = Offload::disk}},
       2},
  };
  return all;
}

class BatchRampParity : public ::testing::TestWithParam<Case> {};

TEST_P(BatchRampParity, EqualsOneDeviceOnTheSameBatches) {
  expect_parity(job("deep_gpt"), ramped(GetParam().strategy), GetParam().ranks, kSteps);
}

INSTANTIATE_TEST_SUITE_P(, BatchRampParity, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

TEST(BatchRamp, HasTheSameBitsOnAnyNumberOfRanks) {
  const Job& gpt = job("deep_gpt");
  const Trained one = train_ranks(gpt, ramped({.slots = 4}), 1, AdamW{}, kSteps);
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::gradients, ShardLevel::parameters}) {
    for (const int ranks : {2, 4}) {
      const Strategy strategy = ramped({.slots = 4, .spread = Spread::shard, .layout = at_level(level)});
      expect_equal(train_ranks(gpt, strategy, ranks, AdamW{}, kSteps), one, std::string(name(level)));
    }
  }
}

TEST(BatchRamp, ResumesWithinAPhaseAndBetweenTwo) {
  const Job& gpt = job("deep_gpt");
  const Strategy alone = ramped({.slots = 4}),
                 sharded = ramped({.slots = 4, .spread = Spread::shard, .layout = at_level(ShardLevel::parameters)});
  const Trained whole = train_ranks(gpt, alone, 1, AdamW{}, kSteps);
  for (const std::vector<int>& stops : {std::vector<int>{3, 5}, {4, 6}}) {
    const test::TempFolder folder;
    const Trained parts = train_in_stretches(gpt, {{alone, 1, stops[0]}, {sharded, 2, stops[1]}, {alone, 4, kSteps}}, AdamW{},
                                             folder.path().string());
    expect_equal(parts, whole, "stopped after " + std::to_string(stops[0]));
  }
}

TEST(BatchRamp, CheckpointsStoreTheSamplesSeen) {
  const test::TempFolder folder;
  const Job& gpt = job("deep_gpt");
  const auto trainer_of = [&](BatchRamp ramp) {
    return std::make_unique<Trainer>(Mesh(World(), {}), gpt.model(), Sgd{},
                                     TrainerOptions{.global_batch = 16, .ramp = std::move(ramp), .micro_batch = 4});
  };
  const auto ramped = trainer_of(kRamp);
  EXPECT_EQ(ramped->global_batch(), 4);
  for (int step = 0; step < 5; ++step) {
    const int64_t begin = ramped->samples_done();
    ramped->step(slice(gpt.batch_of(begin / 16), begin % 16, ramped->global_batch()));
  }
  EXPECT_EQ(ramped->samples_done(), 4 * 4 + 8);
  EXPECT_EQ(ramped->global_batch(), 8);
  ramped->save(folder.file("checkpoint"));
  const auto other = trainer_of({});  // of other sizes: it resumes after the samples seen
  other->load(folder.file("checkpoint"));
  EXPECT_EQ(other->steps_done(), 5);
  EXPECT_EQ(other->samples_done(), 24);
  EXPECT_EQ(other->loader_options().first_sample, 24);
  other->step(gpt.batch_of(0));
  EXPECT_EQ(other->samples_done(), 40);
}

TEST(BatchRamp, WhatDoesNotDivideIsRefusedWithItsPhase) {
  const auto refused = [](const BatchRamp& ramp, int slots = 0) {
    return test::refusal([&] {
      Trainer(Mesh(World(), {}), job("deep_gpt").model(), Sgd{},
              {.global_batch = 16, .ramp = ramp, .micro_batch = 4, .reproducible_slots = slots});
    });
  };
  EXPECT_EQ(refused(kRamp), "");
  EXPECT_EQ(refused({{4, 1}, {6, 1}}),
            "trainer: global batch 6 is not divisible by 1 data-parallel ranks with micro-batches of 4; use a multiple of 4 "
            "(phase 2 of the batch ramp)");
  EXPECT_NE(refused(kRamp, 2).find("(phase 1 of the batch ramp)"), std::string::npos);
  EXPECT_NE(refused({{32, 1}}).find("phase 1 of the batch ramp has 1 step of 32 samples, followed by 16"), std::string::npos);
  EXPECT_NE(refused({{4, 0}}), "");
}

}  // namespace
}  // namespace weft::batch_ramp_test
