// ZeRO-1 and 2 as passes: reduce-scatter and, over replicas of the shards, a reduce; the gathers that end the step.
#include "weft/program/passes/shard_gradients.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/program/buckets.h"
#include "weft/program/cost.h"
#include "weft/program/passes/gather_updated.h"
#include "weft/program/passes/slots.h"

namespace weft {
namespace {

Program sharded(const ModelCost& model, int shards, int replicas, int micro_batches) {
  return toy_program(
      model, {.shard_level = ShardLevel::gradients, .shards = shards, .micro_batches = micro_batches, .replicas = replicas});
}

InstructionList steps(const ModelCost& model, int micro_batches) { return one_stage(model, micro_batches); }

TEST(ShardGradients, once_after_the_last_micro_batch) {
  const ModelCost model = toy_model(2);
  EXPECT_EQ(text(shard_gradients(steps(model, 2), sharded(model, 2, 1, 2), {})),
            "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0 "
            "load1 forward0.1 forward1.1 loss1 backward1.1 reduce_scatter1.1 backward0.1 reduce_scatter0.1");
}

TEST(ShardGradients, after_every_micro_batch) {
  const ModelCost model = toy_model(2);
  EXPECT_EQ(text(shard_gradients(steps(model, 2), sharded(model, 2, 1, 2), {.every_micro_batch = true})),
            "load0 forward0.0 forward1.0 loss0 backward1.0 reduce_scatter1.0 backward0.0 reduce_scatter0.0 "
            "load1 forward0.1 forward1.1 loss1 backward1.1 reduce_scatter1.1 backward0.1 reduce_scatter0.1");
}

TEST(ShardGradients, over_replicas_only_once_per_step) {
  const ModelCost model = toy_model(1);
  EXPECT_EQ(text(shard_gradients(steps(model, 2), sharded(model, 2, 3, 2), {.every_micro_batch = true})),
            "load0 forward0.0 loss0 backward0.0 reduce_scatter0.0 "
            "load1 forward0.1 loss1 backward0.1 reduce_scatter0.1 reduce0-0@dp");
}

TEST(ShardGradients, follows_the_combine) {
  const ModelCost model = toy_model(1);
  Program program = sharded(model, 2, 1, 2);
  program.slots = 2;
  const InstructionList list =
      close_slots(steps(model, 2), program, {.buckets = single_blocks(program, all_blocks(program))}).take();
  EXPECT_EQ(
      text(shard_gradients(list, program, {})),
      "load0 forward0.0 loss0 backward0.0 combine0-0s0 load1 forward0.1 loss1 backward0.1 combine0-0s1 reduce_scatter0.1");
}

TEST(ShardGradients, leaves_blocks_without_parameters_out) {
  ModelCost model = toy_model(3);
  model.blocks[1].numel = 0;
  const InstructionList list = shard_gradients(steps(model, 1), sharded(model, 2, 2, 1), {});
  EXPECT_EQ(text({list.begin() + 5, list.end()}),
            "backward2.0 reduce_scatter2.0 reduce2-2@dp backward1.0 backward0.0 reduce_scatter0.0 reduce0-0@dp");
}

TEST(ShardGradients, tied_blocks_wait_for_their_other_readers_too) {
  ModelCost model = toy_model(3);
  model.blocks[0].uses = {2};
  EXPECT_EQ(text(shard_gradients(one_stage(model), sharded(model, 2, 1, 1), {})),
            "load0 forward0.0 forward1.0 forward2.0 loss0 backward2.0 backward1.0 reduce_scatter1.0 "
            "backward0.0 reduce_scatter2.0 reduce_scatter0.0");
}

TEST(ShardGradients, collectives_overlap_compute_on_their_axis) {
  const ModelCost model = toy_model(2);
  for (const Instruction& x : shard_gradients(steps(model, 1), sharded(model, 2, 2, 1), {})) {
    EXPECT_EQ(x.lane, is_collective(x) ? Lane::comm : Lane::compute);
    if (x.op == Op::reduce_scatter) {
      EXPECT_EQ(x.axes, kShardAxis);
    } else if (x.op == Op::reduce) {
      EXPECT_EQ(x.axes, kReplicaAxis);
    }
  }
}

TEST(ShardGradients, costs_match_the_header) {
  const int64_t numel = 64 * 24;
  const ModelCost model = toy_model(5, numel);
  for (int shards : {1, 2, 3, 4, 8}) {
    for (int replicas : {1, 2, 4}) {
      for (int micro_batches : {1, 3}) {
        for (int width : {2, 4}) {
          for (bool every : {false, true}) {
            Program program = sharded(model, shards, replicas, micro_batches);
            program.gradient_bytes = width;
            const StepCost cost =
                step_cost(shard_gradients(steps(model, micro_batches), program, {.every_micro_batch = every}));
            const int64_t bytes = 5 * numel * width;
            const int64_t times = every ? micro_batches : 1;
            EXPECT_EQ(cost.gradient_wire_bytes,
                      times * bytes * (shards - 1) / shards + 2 * bytes / shards * (replicas - 1) / replicas)
                << shards << " shards, " << replicas << " replicas, " << micro_batches << " micro-batches";
            EXPECT_EQ(cost.num_reduces, 5 * (times + (replicas > 1 ? 1 : 0)));
            EXPECT_EQ(cost.weight_wire_bytes, 0);
          }
        }
      }
    }
  }
}

TEST(GatherUpdated, in_the_order_of_the_updates) {
  ModelCost model = toy_model(4);
  model.blocks[2].numel = 0;
  Program program = sharded(model, 2, 1, 1);
  const InstructionList list = {{.op = Op::update, .first = 3, .last = 4}, {.op = Op::update, .first = 0, .last = 3}};
  EXPECT_EQ(text(gather_updated(list, program)), "update3-3 update0-2 gather3 gather0 gather1");
  program.shards = 1;
  EXPECT_EQ(text(gather_updated(list, program)), "update3-3 update0-2");
}

TEST(GatherUpdated, costs_match_the_header) {
  const int64_t numel = 64 * 24;
  for (int shards : {1, 2, 3, 8}) {
    for (int width : {2, 4}) {
      Program program = sharded(toy_model(5, numel), shards, 1, 1);
      program.weight_bytes = width;
      const InstructionList list = gather_updated({{.op = Op::update, .first = 0, .last = 5}}, program);
      EXPECT_EQ(step_cost(list).weight_wire_bytes, 5 * numel * width * (shards - 1) / shards);
      EXPECT_EQ(step_cost(list).wire_bytes(), step_cost(list).weight_wire_bytes);
      for (int i = 1; i < static_cast<int>(list.size()); ++i) EXPECT_EQ(list[i].axes, kShardAxis);
    }
  }
}

}  // namespace
}  // namespace weft
