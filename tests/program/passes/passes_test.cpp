// Every pass alone: its result for a small list, and costs as stated in its header.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/program/toy.h"
#include "tests/program/verify/spoil.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/fingerprint.h"
#include "weft/program/passes/norms.h"
#include "weft/program/passes/replicate.h"
#include "weft/program/passes/slots.h"
#include "weft/program/passes/sum_losses.h"
#include "weft/program/passes/update.h"
#include "weft/program/passes/waits.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

constexpr int64_t kOneBlock = 1;  // bucket bytes that put every block into a bucket of its own

std::vector<Bucket> buckets_of(const ModelCost& model, int64_t bucket_bytes) {
  const Program program = toy_program(model);
  return gradient_buckets(program, all_blocks(program), bucket_bytes);
}
std::vector<std::vector<int>> uses_of(const ModelCost& model) { return toy_program(model).block_uses; }

int64_t live_at_end(const InstructionList& list) {
  int64_t live = 0;
  for (const Instruction& x : list) live += x.allocates - x.frees;
  return live;
}

TEST(OneStage, order) {
  EXPECT_EQ(text(one_stage(toy_model(2))), "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0");
  EXPECT_EQ(text(one_stage(toy_model(1))), "load0 forward0.0 loss0 backward0.0");
}

TEST(OneStage, costs_match_the_header) {
  for (int num_blocks : {1, 2, 5}) {
    ModelCost model = toy_model(num_blocks);
    if (num_blocks == 5) model.blocks[1].output_bytes = 5000;  // so that the peak lies in the middle
    int64_t peak = 0;
    int64_t held = model.input_bytes;
    double forward = 0, backward = 0;
    for (int b = 0; b < num_blocks; ++b) {
      const BlockCost& block = model.blocks[b];
      held += block.saved_bytes + block.output_bytes;
      peak = std::max(peak, held + block.output_bytes + (b > 0 ? model.blocks[b - 1].output_bytes : 0));
      forward += block.forward_flops;
      backward += block.backward_flops;
    }
    const InstructionList list = one_stage(model);
    EXPECT_EQ(step_cost(list).peak_activation_bytes, peak) << num_blocks;
    EXPECT_EQ(step_cost(list).forward_flops, forward);
    EXPECT_EQ(step_cost(list).backward_flops, backward);
    EXPECT_EQ(step_cost(list).wire_bytes(), 0);
    EXPECT_EQ(live_at_end(list), 0);
  }
}

TEST(OneStage, runs_micro_batches_one_after_another) {
  EXPECT_EQ(text(one_stage(toy_model(1), 2)), "load0 forward0.0 loss0 backward0.0 load1 forward0.1 loss1 backward0.1");
}

TEST(OneStage, several_micro_batches_cost_no_more_memory_than_one) {
  const InstructionList one = one_stage(toy_model(3));
  const InstructionList four = one_stage(toy_model(3), 4);
  EXPECT_EQ(step_cost(four).peak_activation_bytes, step_cost(one).peak_activation_bytes);
  EXPECT_EQ(step_cost(four).flops(), 4 * step_cost(one).flops());
  EXPECT_EQ(step_cost(four).wire_bytes(), 0);
}

InstructionList slotted(const ModelCost& model, int micro_batches, int slots, int64_t bucket_bytes) {
  const Program program = toy_program(model, {.micro_batches = micro_batches, .slots = slots});
  return close_slots(one_stage(model, micro_batches), program, {.buckets = buckets_of(model, bucket_bytes)}).take();
}
InstructionList slotted(int num_blocks, int micro_batches, int slots, int64_t bucket_bytes) {
  return slotted(toy_model(num_blocks), micro_batches, slots, bucket_bytes);
}

TEST(Slots, one_slot_changes_nothing) { EXPECT_EQ(text(slotted(2, 2, 1, kOneBlock)), text(one_stage(toy_model(2), 2))); }

TEST(Slots, the_last_one_is_closed_bucket_by_bucket) {
  EXPECT_EQ(text(slotted(2, 2, 2, kOneBlock)),
            "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0 combine0-1s0 "
            "load1 forward0.1 forward1.1 loss1 backward1.1 combine1-1s1 backward0.1 combine0-0s1");
  EXPECT_EQ(text(slotted(1, 4, 2, kOneBlock)),
            "load0 forward0.0 loss0 backward0.0 load1 forward0.1 loss1 backward0.1 combine0-0s0 "
            "load2 forward0.2 loss2 backward0.2 load3 forward0.3 loss3 backward0.3 combine0-0s1");
}

TEST(Slots, cost_log2_of_the_gradients) {
  const int num_blocks = 3;
  const int64_t gradient_bytes = num_blocks * 1024;
  for (int slots : {1, 2, 4, 8, 32}) {
    const InstructionList list = slotted(num_blocks, 32, slots, kOneBlock);
    EXPECT_EQ(step_cost(list).peak_partial_bytes, std::countr_zero(static_cast<unsigned>(slots)) * gradient_bytes) << slots;
    EXPECT_EQ(live_at_end(list), 0) << slots;
    EXPECT_EQ(step_cost(list).wire_bytes(), 0);
  }
}

TEST(Replicate, reduces_right_after_the_backward_that_fills_the_bucket) {
  const ModelCost model = toy_model(3);
  const auto list = [&](int replicas, int micro_batches, int64_t bucket_bytes) {
    return text(replicate(one_stage(model, micro_batches),
                          {.replicas = replicas, .buckets = buckets_of(model, bucket_bytes), .uses = uses_of(model)}));
  };
  EXPECT_EQ(list(2, 1, 2048),
            "load0 forward0.0 forward1.0 forward2.0 loss0 backward2.0 backward1.0 reduce1-2 backward0.0 reduce0-0");
  EXPECT_EQ(list(2, 2, 1 << 20),
            "load0 forward0.0 forward1.0 forward2.0 loss0 backward2.0 backward1.0 backward0.0 "
            "load1 forward0.1 forward1.1 forward2.1 loss1 backward2.1 backward1.1 backward0.1 reduce0-2");
  EXPECT_EQ(list(1, 2, 2048), text(one_stage(model, 2)));
}

TEST(Replicate, follows_the_combine) {
  const ModelCost model = toy_model(1);
  const std::vector<Bucket> buckets = buckets_of(model, kOneBlock);
  const InstructionList list =
      replicate(slotted(1, 2, 2, kOneBlock), {.replicas = 2, .buckets = buckets, .uses = uses_of(model)});
  EXPECT_EQ(text({list.end() - 3, list.end()}), "backward0.1 combine0-0s1 reduce0-0");
}

TEST(Replicate, costs_match_the_header) {
  const ModelCost model = toy_model(5);
  const int64_t gradient_bytes = 5 * 1024;
  for (int replicas : {1, 2, 4, 8, 4096}) {
    for (int micro_batches : {1, 4}) {
      const InstructionList before = one_stage(model, micro_batches);
      const InstructionList list =
          replicate(before, {.replicas = replicas, .buckets = buckets_of(model, 2048), .uses = uses_of(model)});
      int64_t expected = 0;
      for (const Bucket& bucket : buckets_of(model, 2048)) expected += 2 * (replicas - 1) * bucket.bytes / replicas;
      EXPECT_EQ(step_cost(list).wire_bytes(), expected);
      EXPECT_NEAR(step_cost(list).wire_bytes(), 2.0 * (replicas - 1) / replicas * gradient_bytes, 3.0);
      EXPECT_EQ(step_cost(list).num_reduces, replicas == 1 ? 0 : 3);
      EXPECT_EQ(step_cost(list).peak_activation_bytes, step_cost(before).peak_activation_bytes);
      EXPECT_EQ(step_cost(list).flops(), step_cost(before).flops());
    }
  }
}

// Block 0 is read, and its gradients written, by block 2 as well.
TEST(Replicate, tied_blocks_wait_for_their_other_readers_too) {
  const ModelCost model = tied_model(3);
  InstructionList list = one_stage(model);
  std::swap(list[find(list, "backward2.0")], list[find(list, "backward0.0")]);
  const std::vector<Bucket> buckets = buckets_of(model, kOneBlock);
  EXPECT_EQ(text(replicate(list, {.replicas = 2, .buckets = buckets, .uses = uses_of(model)})),
            "load0 forward0.0 forward1.0 forward2.0 loss0 backward0.0 backward1.0 reduce1-1 backward2.0 reduce2-2 reduce0-0");
}

TEST(Clip, one_norm_at_the_end_for_free) {
  const ModelCost model = toy_model(2);
  const InstructionList before = one_stage(model);
  const InstructionList list = add_norms(before, {.all = whole(buckets_of(model, kOneBlock))});
  EXPECT_EQ(text(list), text(before) + " norm0-1");
  EXPECT_EQ(step_cost(list).wire_bytes(), 0);
  EXPECT_EQ(step_cost(list).peak_activation_bytes, step_cost(before).peak_activation_bytes);
}

TEST(Clip, ranks_that_share_a_replica_add_up_one_exact_sum) {
  const ModelCost model = toy_model(2);
  const InstructionList before = one_stage(model);
  for (int shards : {1, 2, 4, 8}) {
    const InstructionList list = add_norms(
        before, {.axes = shards == 1 ? kNoAxes : kShardAxis, .ranks = shards, .all = whole(buckets_of(model, kOneBlock))});
    EXPECT_EQ(text(list.back()), shards == 1 ? "norm0-1" : "norm0-1@shard");
    EXPECT_EQ(step_cost(list).loss_wire_bytes, 2 * (shards - 1) * 21 * 8 / shards) << "21 words of base/exact_sum.h";
    EXPECT_EQ(step_cost(list).gradient_wire_bytes, 0);
  }
}

TEST(SumLosses, after_the_last_loss_overlapping_backward) {
  const ModelCost model = toy_model(2);
  for (int ranks : {1, 4}) {
    const InstructionList list =
        sum_losses(one_stage(model, 2), toy_program(model, {.micro_batches = 2, .mesh = {.dp = ranks}}));
    EXPECT_EQ(text(list),
              "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0 "
              "load1 forward0.1 forward1.1 loss1 reduce_loss backward1.1 backward0.1");
    const int64_t table_bytes = 24 * 2 * ranks;  // 24 bytes per micro-batch of every rank
    EXPECT_EQ(step_cost(list).loss_wire_bytes, 2 * (ranks - 1) * table_bytes / ranks);
    EXPECT_EQ(step_cost(list).gradient_wire_bytes, 0);
    EXPECT_EQ(list[find(list, Op::reduce_loss)].axes, kDataAxes);
  }
}

// Ranks of tp compute the same losses, but each has votes of its own.
TEST(SumLosses, take_votes_of_all_ranks_along) {
  const Program program = build_program(toy_model(2), {.tp = 2, .dp = 2, .votes = 3});
  EXPECT_EQ(step_cost(program.of(0)).loss_wire_bytes, 2 * 3 * (24 * 2 + 8 * 3) / 4);
  EXPECT_EQ(program.of(0)[find(program.of(0), Op::reduce_loss)].axes, kDataAxes | kTensorAxis);
  EXPECT_GT(find(program.of(0), Op::reduce_loss), find(program.of(0), "backward0.0")) << "as late as a step allows";
  verify(program);
}

// The flags of parameters with gradients are known after the last backward, and travel with the losses.
TEST(SumLosses, wait_for_backward_where_parameters_may_have_no_gradient) {
  ModelCost model = toy_model(2);
  model.blocks[0].flagged = 3;
  const Program program = build_program(model, {.dp = 2, .micro_batches = 2});
  EXPECT_EQ(text(program.of(0)),
            "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0 "
            "load1 forward0.1 forward1.1 loss1 backward1.1 backward0.1 reduce_loss reduce0-1 update0-1");
  EXPECT_EQ(step_cost(program.of(0)).loss_wire_bytes, 24 * 2 * 2 + 8 * 3);
  verify(program);
  const auto early = [](InstructionList& x) { move(x, find(x, Op::reduce_loss), find(x, "backward0.1")); };
  expect_found(program, {"before them", Defect::early_reduce, early, "a backward of block 0 'layer0'"}, Waits::linked_again);
  EXPECT_NE(fingerprint(program), fingerprint(build_program(toy_model(2), {.dp = 2, .micro_batches = 2})));
}

TEST(Update, buckets_in_the_order_they_become_final) {
  const ModelCost model = toy_model(2);
  const InstructionList before = one_stage(model);
  const InstructionList list = update(before, {.buckets = buckets_of(model, kOneBlock)});
  EXPECT_EQ(text(list), text(before) + " update1-1 update0-0");
  EXPECT_EQ(step_cost(list).wire_bytes(), 0);
}

}  // namespace
}  // namespace weft
