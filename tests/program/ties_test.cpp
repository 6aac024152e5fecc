#include "weft/program/ties.h"

#include <gtest/gtest.h>

#include "tests/program/pipeline/schedule_table.h"
#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/memory.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

/// Blocks 2 and 5 read block 0's weights too.
ModelCost three_uses() {
  ModelCost model = tied_model(6);
  model.blocks[2].uses = {0};
  return model;
}

TEST(Ties, users) {
  EXPECT_FALSE(has_ties(toy_program(toy_model(3))));
  Program program = toy_program(three_uses());
  EXPECT_TRUE(has_ties(program));
  EXPECT_EQ(users_of(program, 0), (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(users_of(program, 2), std::vector<int>{2});
  EXPECT_EQ(users_run(program, one_stage(three_uses()))[0], (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(tied_rows(program, 0), 1) << "one sum for all";
  program.uses_apart = true;
  EXPECT_EQ(tied_rows(program, 0), 3);
  EXPECT_EQ(tied_rows(program, 1), 1);
}

TEST(Ties, sums_of_a_rank_are_as_many_as_uses_it_runs) {
  using Sums = std::vector<int>;
  struct Case {
    const char* what;
    ModelCost model;
    StepLayout layout;
    Sums sums;
  };
  const auto stages = [](const char* schedule, StepLayout layout) { return pipelined(layout, schedule_named(schedule), 2, 4); };
  const Case cases[] = {
      {"sums in any order", tied_model(6), {.micro_batches = 2}, {}},
      {"nothing tied", toy_model(6), {.keep_order = true, .micro_batches = 2}, {}},
      {"one rank", tied_model(6), {.keep_order = true, .micro_batches = 2}, {2, 1, 1, 1, 1, 1}},
      {"three uses", three_uses(), {.keep_order = true, .micro_batches = 2}, {3, 1, 1, 1, 1, 1}},
      {"one use per stage", tied_model(6), stages("1f1b", {.keep_order = true}), {1, 1, 1, 1, 1, 1}},
      {"two uses on one of the stages", three_uses(), stages("1f1b", {.keep_order = true}), {2, 1, 1, 1, 1, 1}},
      {"both stages of one rank", tied_model(6), stages("zb-v", {.keep_order = true}), {2, 1, 1, 1, 1, 1}},
  };
  for (const Case& c : cases) {
    const Program program = build_program(c.model, c.layout);
    EXPECT_EQ(program.gradient_sums, c.sums) << c.what;
    EXPECT_NO_THROW(verify(program)) << c.what;
  }
}

// Cost of one more use: the tied block's gradients once more, and their traffic.
TEST(Ties, a_use_costs_the_blocks_gradients_once_more) {
  constexpr int64_t kTied = 256 * 4;
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::optimizer, ShardLevel::gradients, ShardLevel::parameters}) {
    const auto built = [level](bool apart) {
      return build_program(tied_model(6), {.dp = 2, .shard = 2, .shard_level = level, .keep_order = apart});
    };
    const Program apart = built(true), together = built(false);
    const int64_t sent =
        level == ShardLevel::none ? all_reduce_bytes(kTied, 4) : shard_bytes(kTied, 2) + all_reduce_bytes(kTied / 2, 2);
    EXPECT_EQ(step_cost(apart.of(0)).gradient_wire_bytes, step_cost(together.of(0)).gradient_wire_bytes + sent) << name(level);
    const auto held = [](const Program& program) { return estimate_memory(program, 0, {}).of(MemoryCategory::gradients); };
    const int64_t more = held(apart) - held(together);
    EXPECT_GE(more, level >= ShardLevel::gradients ? kTied / 2 : kTied) << name(level);
    EXPECT_LE(more, kTied + kTied / 2) << name(level) << ": the sum, and the rank's own part";
  }
}

TEST(Ties, of_more_than_two_uses_stages_exchange_each) {
  const auto sent = [](const ModelCost& model) {
    const Program program = build_program(model, pipelined({.keep_order = true}, schedule_named("1f1b"), 2, 4));
    return program.lists[0];
  };
  const auto tied_bytes = [](const InstructionList& list) {
    int64_t bytes = 0;
    for (const Instruction& x : list) bytes += tied_block(x) >= 0 ? x.wire_bytes : 0;
    return bytes;
  };
  EXPECT_EQ(tied_bytes(sent(tied_model(6))), all_reduce_bytes(256 * 4, 2));
  EXPECT_EQ(tied_bytes(sent(three_uses())), all_reduce_bytes(3 * 256 * 4, 2));
}

}  // namespace
}  // namespace weft
