#include "weft/program/build.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/base/error.h"
#include "weft/program/cost.h"
#include "weft/program/verify.h"

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
  EXPECT_EQ(program.block_bytes, (std::vector<int64_t>{1024, 1024}));
}

TEST(Build, one_rank_needs_no_collective_on_gradients) {
  const Program program = build_program(toy_model(3), {});
  EXPECT_EQ(count(program.of(0), Op::reduce), 0);
  EXPECT_EQ(count(program.of(0), Op::update), 1);
  EXPECT_EQ(step_cost(program.of(0)).wire_bytes(), 0);
}

TEST(Build, ranks_share_one_list) {
  const Program program = build_program(toy_model(48, 1 << 20), {.dp = 4096, .micro_batches = 8, .clip = true});
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

TEST(Build, refuses_what_cannot_be) {
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
      {2, {.bucket_bytes = 0}, "bucket_bytes is 0"},
      {2, {.micro_batches = 6, .slots = 6}, "power of two (nearest below: 4)"},
      {2, {.micro_batches = 6, .slots = 4}, "use 8 micro-batches"},
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
