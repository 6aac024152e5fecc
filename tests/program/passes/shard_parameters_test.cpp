// ZeRO-3 as a pass: gathers and releases around each reader of the weights.
#include "weft/program/passes/shard_parameters.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/program/cost.h"
#include "weft/program/passes/recompute.h"

namespace weft::shard_parameters_test {
namespace {

Program sharded(const ModelCost& model, int shards = 2) {
  return toy_program(model, {.shard_level = ShardLevel::parameters, .shards = shards});
}

std::string around(const ModelCost& model, int micro_batches, bool reshard = true, int recompute_every = 0) {
  const InstructionList list = recompute(one_stage(model, micro_batches), model, {.every = recompute_every});
  return text(shard_parameters(list, sharded(model), {.reshard_after_forward = reshard}));
}

TEST(ShardParameters, gathers_for_forward_and_again_for_backward) {
  // The last block stays from its forward to its backward.
  EXPECT_EQ(around(toy_model(3), 1),
            "load0 gather0 forward0.0 release0 gather1 forward1.0 release1 gather2 forward2.0 loss0 "
            "backward2.0 release2 gather1 backward1.0 release1 gather0 backward0.0 release0");
}

TEST(ShardParameters, the_first_block_stays_for_the_next_micro_batch) {
  EXPECT_EQ(around(toy_model(2), 2),
            "load0 gather0 forward0.0 release0 gather1 forward1.0 loss0 backward1.0 release1 gather0 backward0.0 "
            "load1 forward0.1 release0 gather1 forward1.1 loss1 backward1.1 release1 gather0 backward0.1 release0");
  EXPECT_EQ(around(toy_model(1), 2), "load0 gather0 forward0.0 loss0 backward0.0 load1 forward0.1 loss1 backward0.1 release0");
}

TEST(ShardParameters, without_resharding_weights_stay_from_forward_to_backward) {
  EXPECT_EQ(around(toy_model(3), 1, false),
            "load0 gather0 forward0.0 gather1 forward1.0 gather2 forward2.0 loss0 "
            "backward2.0 release2 backward1.0 release1 backward0.0 release0");
  EXPECT_EQ(around(toy_model(2), 2, false),
            "load0 gather0 forward0.0 gather1 forward1.0 loss0 backward1.0 release1 backward0.0 "
            "load1 forward0.1 gather1 forward1.1 loss1 backward1.1 release1 backward0.1 release0");
}

TEST(ShardParameters, recompute_and_backward_share_a_gather) {
  EXPECT_EQ(around(toy_model(2), 1, true, 1),
            "load0 gather0 forward0.0 release0 gather1 forward1.0 drop0.0 loss0 "
            "backward1.0 release1 gather0 forward0.0 backward0.0 release0");
}

TEST(ShardParameters, tied_weights_are_there_for_both_readers) {
  EXPECT_EQ(around(tied_model(3), 1),
            "load0 gather0 forward0.0 release0 gather1 forward1.0 release1 gather0 gather2 forward2.0 loss0 "
            "backward2.0 release0 release2 gather1 backward1.0 release1 gather0 backward0.0 release0");
  EXPECT_EQ(around(tied_model(2), 1),
            "load0 gather0 forward0.0 gather1 forward1.0 loss0 backward1.0 release1 backward0.0 release0");
}

TEST(ShardParameters, leaves_blocks_without_parameters_out) {
  ModelCost model = toy_model(3);
  model.blocks[1].numel = 0;
  EXPECT_EQ(around(model, 1),
            "load0 gather0 forward0.0 release0 forward1.0 gather2 forward2.0 loss0 "
            "backward2.0 release2 backward1.0 gather0 backward0.0 release0");
}

TEST(ShardParameters, gathers_overlap_compute_on_the_shard_axis) {
  const ModelCost model = toy_model(3);
  for (const Instruction& x : shard_parameters(one_stage(model), sharded(model), {})) {
    if (x.op == Op::gather) {
      EXPECT_EQ(x.lane, Lane::comm);
      EXPECT_EQ(x.axes, kShardAxis);
    } else {
      EXPECT_EQ(x.lane, Lane::compute);
      EXPECT_FALSE(is_collective(x)) << text(x);
    }
  }
}

TEST(ShardParameters, costs_match_the_header) {
  const int64_t numel = 64 * 24;
  const int blocks = 5;
  const ModelCost model = toy_model(blocks, numel);
  for (int shards : {1, 2, 3, 4, 8}) {
    for (int micro_batches : {1, 2, 5}) {
      for (int width : {2, 4}) {
        for (bool reshard : {true, false}) {
          for (int every : {0, 1, 2}) {
            Program program = sharded(model, shards);
            program.weight_bytes = width;
            const InstructionList before = recompute(one_stage(model, micro_batches), model, {.every = every});
            const StepCost cost = step_cost(shard_parameters(before, program, {.reshard_after_forward = reshard}));
            // Twice per micro-batch, except that the last block stays for its backward and the first for the next micro-batch.
            const int twice = 2 * micro_batches * blocks - micro_batches - (micro_batches - 1);
            const int once = micro_batches * blocks - (micro_batches - 1);
            EXPECT_EQ(cost.num_gathers, reshard ? twice : once);
            EXPECT_EQ(cost.weight_wire_bytes, cost.num_gathers * (numel * width * (shards - 1) / shards));
            EXPECT_EQ(cost.wire_bytes(), cost.weight_wire_bytes);
            EXPECT_EQ(cost.flops(), step_cost(before).flops());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::shard_parameters_test
