// Steps with recompute, and costs as stated in its header.
#include "weft/program/passes/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program/toy.h"
#include "weft/program/cost.h"

namespace weft::recompute_test {
namespace {

InstructionList recomputed(const ModelCost& model, int every, int micro_batches = 1) {
  return recompute(one_stage(model, micro_batches), model, {.every = every});
}

TEST(Recompute, forgets_and_computes_again_right_before_backward) {
  struct Case {
    int blocks, every;
    const char* expected;
  };
  const Case cases[] = {
      {3, 0, "load0 forward0.0 forward1.0 forward2.0 loss0 backward2.0 backward1.0 backward0.0"},
      // A block is dropped once the next one has its output; the last one's backward comes at once.
      {3, 1,
       "load0 forward0.0 forward1.0 drop0.0 forward2.0 drop1.0 loss0 "
       "backward2.0 forward1.0 backward1.0 forward0.0 backward0.0"},
      {4, 2,
       "load0 forward0.0 forward1.0 drop0.0 forward2.0 forward3.0 drop2.0 loss0 "
       "backward3.0 forward2.0 backward2.0 backward1.0 forward0.0 backward0.0"},
      {3, 2, "load0 forward0.0 forward1.0 drop0.0 forward2.0 loss0 backward2.0 backward1.0 forward0.0 backward0.0"},
      {3, 9, "load0 forward0.0 forward1.0 drop0.0 forward2.0 loss0 backward2.0 backward1.0 forward0.0 backward0.0"},
      {1, 1, "load0 forward0.0 loss0 backward0.0"},
  };
  for (const Case& c : cases) EXPECT_EQ(text(recomputed(toy_model(c.blocks), c.every)), c.expected) << c.every;
}

TEST(Recompute, every_micro_batch) {
  const ModelCost model = toy_model(2);
  EXPECT_EQ(text(recomputed(model, 1, 2)),
            "load0 forward0.0 forward1.0 drop0.0 loss0 backward1.0 forward0.0 backward0.0 "
            "load1 forward0.1 forward1.1 drop0.1 loss1 backward1.1 forward0.1 backward0.1");
}

TEST(Recompute, one_more_forward_of_each_chosen_block_and_no_traffic) {
  for (int blocks : {1, 2, 5, 8}) {
    for (int every : {1, 2, 3}) {
      const ModelCost model = toy_model(blocks);
      const StepCost before = step_cost(one_stage(model));
      const StepCost after = step_cost(recomputed(model, every));
      double again = 0;
      for (int b = 0; b < blocks - 1; b += every) again += model.blocks[b].forward_flops;
      EXPECT_EQ(after.forward_flops, before.forward_flops + again) << blocks << " every " << every;
      EXPECT_EQ(after.backward_flops, before.backward_flops);
      EXPECT_EQ(after.wire_bytes(), 0);
    }
  }
}

// All inputs and one block's kept activations, instead of everything.
TEST(Recompute, keeps_one_block_at_a_time) {
  ModelCost model = toy_model(10);
  for (BlockCost& block : model.blocks) {
    block.saved_bytes = 1000;
    block.output_bytes = 10;
  }
  const int64_t outputs = 10 * 10 + model.input_bytes;
  const int64_t at_hand = 2 * 1000 + 3 * 10;  // two blocks briefly, a recomputed output, gradients in and out
  EXPECT_EQ(step_cost(one_stage(model)).peak_activation_bytes, 10 * 1000 + outputs + 2 * 10);
  EXPECT_LE(step_cost(recomputed(model, 1)).peak_activation_bytes, outputs + at_hand);
}

TEST(Recompute, everything_is_freed) {
  for (int blocks : {1, 2, 5}) {
    for (int every : {1, 2, 3}) {
      int64_t live = 0;
      for (const Instruction& x : recomputed(toy_model(blocks), every)) {
        live += x.allocates - x.frees;
        EXPECT_GE(live, 0);
      }
      EXPECT_EQ(live, 0) << blocks << " every " << every;
    }
  }
}

}  // namespace
}  // namespace weft::recompute_test
