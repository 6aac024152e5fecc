#include "weft/program/build/build.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/base/error.h"
#include "weft/program/cost.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

TEST(Build, a_whole_step_in_order) {
  const Program program =
      build_program(toy_model(2), {.dp = 2, .micro_batches = 2, .slots = 2, .bucket_bytes = 1, .clip = true});
  EXPECT_EQ(text(program.of(1)),
            "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0 combine0-1s0 "
            "load1 forward0.1 forward1.1 loss1 reduce_loss backward1.1 combine1-1s1 reduce1-1 backward0.1 combine0-0s1 "
            "reduce0-0 norm0-1 update1-1 update0-0");
  EXPECT_EQ(program.micro_batches, 2);
  EXPECT_EQ(program.slots, 2);
  EXPECT_EQ(program.replicas, 2);
  EXPECT_EQ(program.world_size(), 2);
  EXPECT_EQ(program.block_names, (std::vector<std::string>{"layer0", "layer1"}));
  EXPECT_EQ(program.block_numel, (std::vector<int64_t>{256, 256}));
  EXPECT_EQ(program.gradient_block_bytes(1), 1024);
  EXPECT_EQ(program.shards, 1);
  EXPECT_TRUE(program.buffers_of(0).weight.empty());
  EXPECT_TRUE(program.buffers_of(0).gradient.empty());
}

TEST(Build, one_rank_needs_no_collective_on_gradients) {
  const Program program = build_program(toy_model(3), {});
  EXPECT_EQ(count(program.of(0), Op::reduce), 0);
  EXPECT_EQ(count(program.of(0), Op::update), 1);
  EXPECT_EQ(step_cost(program.of(0)).wire_bytes(), 0);
}

TEST(Build, ranks_share_one_list) {
  const Program program = build_program(toy_model(48, 1 << 18), {.dp = 4096, .micro_batches = 8, .clip = true});
  EXPECT_EQ(program.world_size(), 4096);
  ASSERT_EQ(program.lists.size(), 1u);
  EXPECT_EQ(&program.of(0), &program.of(4095));
  verify(program);
}

TEST(Build, accumulation_sends_no_more) {
  const auto sent = [](int micro_batches) {
    return step_cost(build_program(toy_model(4), {.dp = 4, .micro_batches = micro_batches}).of(0)).gradient_wire_bytes;
  };
  EXPECT_EQ(sent(1), 2 * 3 * 4 * 1024 / 4);
  EXPECT_EQ(sent(8), sent(1));
}

TEST(Build, pads_blocks_so_that_they_divide_over_the_shards) {
  struct Case {
    int64_t numel;
    int shards;
    int64_t padded;
  };
  const Case cases[] = {{0, 1, 0},    {0, 8, 0},    {1, 1, 64},    {64, 1, 64},
                        {65, 1, 128}, {64, 2, 128}, {256, 3, 384}, {1000, 8, 1024}};
  for (const Case& c : cases) EXPECT_EQ(padded_numel(c.numel, c.shards), c.padded) << c.numel << " over " << c.shards;
}

TEST(Build, who_shares_and_who_replicates) {
  struct Case {
    ShardLevel level;
    int replicas, shards;
  };
  const Case cases[] = {
      {ShardLevel::none, 6, 1}, {ShardLevel::optimizer, 2, 3}, {ShardLevel::gradients, 2, 3}, {ShardLevel::parameters, 2, 3}};
  for (const Case& c : cases) {
    const Program program = build_program(toy_model(2), {.dp = 2, .shard = 3, .shard_level = c.level});
    EXPECT_EQ(program.replicas, c.replicas);
    EXPECT_EQ(program.shards, c.shards);
    EXPECT_EQ(program.world_size(), 6);
    EXPECT_EQ(program.block_numel[0], c.shards == 1 ? 256 : 384);
  }
}

TEST(Build, the_norm_is_there_for_clipping_for_fp16_and_for_the_noise_scale) {
  EXPECT_EQ(count(build_program(toy_model(2), {}).of(0), Op::norm), 0);
  EXPECT_EQ(count(build_program(toy_model(2), {.clip = true}).of(0), Op::norm), 1);
  EXPECT_EQ(count(build_program(toy_model(2), {.check_finite = true}).of(0), Op::norm), 1);
  EXPECT_EQ(count(build_program(toy_model(2), {.check_finite = true, .clip = true}).of(0), Op::norm), 1);
  EXPECT_EQ(count(build_program(toy_model(2), {.micro_batches = 2, .noise_scale = true}).of(0), Op::norm), 1);
}

TEST(Build, refuses_impossible_layouts) {
  struct Case {
    int blocks;
    StepLayout layout;
    const char* says;
  };
  const Case cases[] = {
      {0, {}, "no blocks"},
      {2, {.dp = 0}, "dp is 0"},
      {2, {.micro_batches = -1}, "micro_batches is -1"},
      {2, {.slots = 0}, "slots is 0"},
      {2, {.shard = 0}, "shard is 0"},
      {2, {.prefetch = -1}, "prefetch is -1"},
      {2, {.bucket_bytes = -1}, "bucket_bytes is -1"},
      {2, {.micro_batches = 6, .slots = 6}, "power of two (nearest below: 4)"},
      {2, {.micro_batches = 6, .slots = 4}, "use 8, or fewer slots"},
  };
  for (const Case& c : cases) {
    try {
      build_program(toy_model(c.blocks), c.layout);
      ADD_FAILURE() << c.says;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
