// Size of a step, known before it is made; passes that build large ones read a list only a few times.
#include "weft/program/build/step_size.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/program/toy.h"
#include "tests/support/cpu_limit.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"
#include "weft/program/build/make_schedule.h"
#include "weft/program/memory.h"
#include "weft/program/simulate/simulate.h"

namespace weft {
namespace {

using enum ShardLevel;

struct Case {
  const char* what;
  StepLayout layout;
  const char* schedule = "";
};

const std::vector<Case> kCases = {
    {"one rank", {.micro_batches = 8, .clip = true}},
    {"slots", {.dp = 2, .keep_order = true, .micro_batches = 16, .slots = 8}},
    {"noise scale", {.dp = 2, .keep_order = true, .micro_batches = 16, .slots = 8, .noise_scale = true}},
    {"ZeRO-2", {.shard = 2, .shard_level = gradients, .micro_batches = 8}},
    {"ZeRO-3", {.shard = 2, .shard_level = parameters, .micro_batches = 8}},
    {"ZeRO-3, weights kept", {.shard = 2, .shard_level = parameters, .reshard_after_forward = false, .micro_batches = 8}},
    {"ZeRO-3, weights moved out", {.shard = 2, .shard_level = parameters, .offload = {.weights = true}, .micro_batches = 8}},
    {"recompute", {.recompute = {.every = 2}, .offload = {.activations = true}, .micro_batches = 8}},
    {"optimizer moved out", {.offload = {.optimizer = true}, .micro_batches = 8, .bucket_bytes = 1}},
    {"a master", {.pp = 4, .master = true, .micro_batches = 8}},
    {"a master, slots", {.pp = 4, .master = true, .keep_order = true, .micro_batches = 16, .slots = 4}},
};

TEST(StepSize, IsEstimatedBeforeItIsMade) {
  ModelCost model = toy_model(24);
  for (BlockCost& block : model.blocks) block.splits = true;
  std::vector<Case> cases = kCases;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.make) cases.push_back({kind.name.data(), {.pp = 4, .micro_batches = 8}, kind.name.data()});
  }
  for (Case c : cases) {
    const PipelineShape shape = {.ranks = c.layout.pp, .chunks = 2, .micro_batches = c.layout.micro_batches};
    ScheduleSize size;
    if (c.layout.pp > 1 && !c.layout.master) {
      c.layout.schedule = make_schedule(c.schedule, shape);
      size = schedule_size(c.schedule, shape);
    }
    double made = 0.0;
    for (const InstructionList& list : build_program(model, c.layout).lists) made += static_cast<double>(list.size());
    const double estimated = count_instructions(24, c.layout, size);
    EXPECT_GE(estimated, 0.9 * made) << c.what;
    EXPECT_LE(estimated, 1.2 * made) << c.what;
  }
}

std::string refusal(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule = {}) {
  try {
    check_step_size(blocks, layout, schedule);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(StepSize, TooLargeStepsAreRefusedWithAdvice) {
  EXPECT_EQ(refusal(10'002, {.micro_batches = 32}), "none");
  EXPECT_EQ(refusal(50, {.shard = 2, .shard_level = parameters, .micro_batches = 10'000}), "none");
  EXPECT_EQ(
      refusal(8, {.micro_batches = 100'000'000}),
      "layout: 8 blocks and 100000000 micro-batches per rank make a step of 1.80 G instructions, more than the limit of 6.00 "
      "M; use 333332 micro-batches or fewer: larger ones (batch.micro), fewer samples per step (batch.global) or more "
      "data-parallel ranks");
  EXPECT_EQ(refusal(8, {.micro_batches = 333'332}), "none");
  EXPECT_NE(refusal(8, {.micro_batches = 333'333}), "none");
  EXPECT_EQ(refusal(8, {.pp = 1'000'000, .micro_batches = 4}, {.stages = 1'000'000}),
            "layout: 8 blocks cannot be cut into 1000000 stages; use fewer");
  EXPECT_EQ(refusal(10'002, {.pp = 5000, .micro_batches = 4}, {.stages = 5000}),
            "layout: 10002 blocks allow at most 1199 pipeline ranks, not 5000; use fewer, or fewer blocks");
  EXPECT_THROW(build_program(toy_model(8), {.micro_batches = 100'000'000}), InputError);
}

// The advised value is not refused for another reason: too few micro-batches for the ranks, or no multiple of the slots.
TEST(StepSize, AdvisedValuesAreAccepted) {
  struct Refused {
    const char* schedule;
    int64_t blocks;
    StepLayout layout;
    const char* advice;
  };
  const Refused cases[] = {
      {"auto",
       10'002,
       {.pp = 1000, .micro_batches = 4000},
       "it needs 1000 micro-batches or more: use fewer pipeline ranks (layout.pp), or fewer blocks"},
      {"auto",
       1002,
       {.pp = 1000, .keep_order = true, .micro_batches = 8192, .slots = 8192},
       "it needs 8192 micro-batches or more: use fewer pipeline ranks (layout.pp), fewer slots (run.reproducible_slots), or "
       "fewer blocks"},
      {"1f1b", 10'002, {.pp = 1000, .micro_batches = 4000}, "; use 249 micro-batches or fewer: "},
      {"gpipe", 1000, {.pp = 4, .keep_order = true, .micro_batches = 8192, .slots = 64}, "; use 2944 micro-batches or fewer: "},
      {"interleaved", 1000, {.pp = 48, .micro_batches = 9600}, "; use 2496 micro-batches or fewer: "},
      {"auto", 5, {.pp = 4, .micro_batches = 400'000}, " over 4 stages, more than the limit of 6.00 M; use "},
      {"naive", 6'000'000, {.micro_batches = 1}, "it needs 1 micro-batches or more: use fewer blocks"},
  };
  for (const Refused& c : cases) {
    const PipelineShape shape = {.ranks = c.layout.pp, .chunks = 2, .micro_batches = c.layout.micro_batches};
    const std::string line = refusal(c.blocks, c.layout, schedule_size(c.schedule, shape));
    EXPECT_NE(line.find(c.advice), std::string::npos) << c.schedule << ": " << line;
  }
}

// A split backward has no second part for blocks that cannot be split; a CSV's content is not known in advance.
TEST(StepSize, SecondPartsAreCountedWhereTheyAreMade) {
  const PipelineShape shape = {.ranks = 2, .micro_batches = 8};
  const StepLayout layout = {.pp = 2, .micro_batches = 8};
  ScheduleSize size = schedule_size("zb-h1", shape);
  const double split = count_instructions(100, layout, size);
  size.whole_blocks = whole_blocks(toy_model(100));
  EXPECT_EQ(split - count_instructions(100, layout, size), 800.0);
  EXPECT_EQ(count_instructions(100, layout, schedule_size("csv", shape)), split - 800.0);
}

TEST(StepSize, LargeStepsAreBuiltAndSimulatedByPassesOverTheirList) {
  const std::vector<std::pair<int, Case>> large = {
      {2500, {"many blocks", {.shard = 2, .shard_level = parameters, .micro_batches = 4}}},
      {1500, {"many blocks in slots", {.dp = 2, .keep_order = true, .micro_batches = 16, .slots = 8, .bucket_bytes = 1}}},
      {1500,
       {"a limit of gathered weights", {.shard = 2, .shard_level = parameters, .prefetch = 1000, .gathered_bytes = 1 << 20}}},
      {20, {"many micro-batches", {.shard = 2, .shard_level = parameters, .micro_batches = 2000}}},
      {20, {"reduced every micro-batch", {.shard = 2, .shard_level = gradients, .micro_batches = 2500}}},
      {100, {"many ranks", {.pp = 100, .dp = 10'000, .micro_batches = 4}, "naive"}},
  };
  for (const auto& [blocks, given] : large) {
    EXPECT_TRUE(test::runs_within(10, [&blocks = blocks, c = given]() mutable {
      if (c.layout.pp > 1) {
        c.layout.schedule =
            make_schedule(c.schedule, {.ranks = c.layout.pp, .chunks = 1, .micro_batches = c.layout.micro_batches});
      }
      const Program program = build_program(toy_model(blocks), c.layout);
      simulate(program, nominal_hardware());
      estimate_memory(program, 0, {});
    })) << given.what;
  }
}

}  // namespace
}  // namespace weft
