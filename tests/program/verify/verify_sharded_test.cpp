// Every defect of sharding, put into a correct program by one change: verify must name it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/program/toy.h"
#include "tests/program/verify/spoil.h"
#include "weft/program/build/build.h"

namespace weft::verify_sharded_test {
namespace {

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// 200 000 instructions, 80 000 of these off the compute lane: one bit per pair took 2 GB.
TEST(VerifySharded, memory_grows_with_the_step_and_no_faster) {
  const Program program =
      build_program(toy_model(8), {.shard = 2, .shard_level = ShardLevel::parameters, .micro_batches = 4000});
  const int64_t before = peak_bytes();
  verify(program);
  EXPECT_LT(peak_bytes() - before, int64_t{200} << 20);
}

using enum ShardLevel;

// Two micro-batches, four ranks, everything recomputed; gathers one block ahead, so two buffers: blocks 0 and 2, block 1.
StepLayout zero3() {
  return {.dp = 2, .shard = 2, .shard_level = parameters, .recompute = {.every = 1}, .micro_batches = 2, .clip = true};
}
StepLayout zero1() { return {.shard = 2, .shard_level = optimizer, .micro_batches = 2}; }

Program program_of(const StepLayout& layout) { return build_program(toy_model(3), layout); }

TEST(VerifyGather, every_defect_is_found) {
  expect_all_found(
      program_of(zero3()),
      {
          {"no gather for forward", Defect::not_gathered, [](List& x) { drop(x, find(x, "gather1")); }, "weights of block 1"},
          {"no gather for backward", Defect::not_gathered, [](List& x) { drop(x, find(x, "gather1", 1)); },
           "weights of block 1"},
          {"gather after the forward", Defect::not_gathered,
           [](List& x) { move(x, find(x, "gather2"), find(x, "forward2.0")); }, "weights of block 2"},
          {"release before the forward", Defect::not_gathered,
           [](List& x) { move(x, find(x, "release1"), find(x, "forward1.0")); }},
          {"release between second forward and backward", Defect::not_gathered,
           [](List& x) { move(x, find(x, "release1", 1), find(x, "backward1.0")); }},
          {"gathered twice", Defect::bad_gather, [](List& x) { repeat(x, find(x, "gather1")); }, "gathered already"},
          {"released twice", Defect::bad_gather, [](List& x) { repeat(x, find(x, "release1")); }, "is not gathered"},
          {"not released in between", Defect::bad_gather, [](List& x) { drop(x, find(x, "release1")); }, "gathered already"},
          {"never released", Defect::bad_gather, [](List& x) { drop(x, find(x, "release0", 2)); }, "never released"},
          {"released after the next in its buffer came", Defect::buffer_conflict,
           [](List& x) { move(x, find(x, "release0"), find(x, "forward1.0")); }, "block 0 'layer0' is still in its buffer"},
      });
  expect_all_found(program_of(zero3()),
                   {
                       {"forward that does not wait for the gather", Defect::not_gathered,
                        [](List& x) { stop_waiting(x, find(x, "forward0.0"), find(x, "gather0")); }, "weights of block 0"},
                       {"gather that does not wait for the release", Defect::buffer_conflict,
                        [](List& x) { stop_waiting(x, find(x, "gather2"), find(x, "release0")); },
                        "block 0 'layer0' is still in its buffer"},
                   },
                   Waits::as_spoiled);
}

TEST(VerifyGather, tied_weights_must_be_there_for_both_readers) {
  const Program program = build_program(tied_model(3), {.shard = 2, .shard_level = parameters, .prefetch = 0});
  expect_all_found(program, {{"not there for its second reader", Defect::not_gathered,
                              [](List& x) {
                                drop(x, find(x, "gather0", 1));
                                drop(x, find(x, "release0", 1));
                              },
                              "weights of block 0"}});
}

TEST(VerifyGather, after_the_update_of_levels_1_and_2) {
  for (ShardLevel level : {optimizer, gradients}) {
    StepLayout layout = zero1();
    layout.shard_level = level;
    expect_all_found(
        program_of(layout),
        {
            {"no gather", Defect::bad_gather, [](List& x) { drop(x, find(x, "gather1")); }, "not gathered after the update"},
            {"two gathers", Defect::bad_gather, [](List& x) { repeat(x, find(x, "gather1")); }, "gathered already"},
            {"gather before the update", Defect::bad_gather, [](List& x) { move(x, find(x, "gather1"), find(x, "update1-1")); },
             "has not been updated"},
            {"a release of staying weights", Defect::bad_gather,
             [](List& x) { x.insert(x.begin(), {.op = Op::release, .first = 1, .last = 2}); }},
        });
    expect_all_found(program_of(layout),
                     {{"gather that does not wait for the update", Defect::bad_gather,
                       [](List& x) { stop_waiting(x, find(x, "gather1"), find(x, "update1-1")); }, "has not been updated"}},
                     Waits::as_spoiled);
  }
}

TEST(VerifyReduceScatter, every_defect_is_found) {
  const std::vector<Spoiling> order = {
      {"no reduce_scatter at the end", Defect::missing_reduce, [](List& x) { drop(x, find(x, "reduce_scatter1.1")); },
       "without a reduce_scatter that includes the last micro-batch"},
      {"repeated", Defect::double_reduce, [](List& x) { repeat(x, find(x, "reduce_scatter1.1")); }, "reduced already"},
      {"before the backward", Defect::early_reduce,
       [](List& x) { move(x, find(x, "reduce_scatter1.1"), find(x, "backward1.1")); }, "backward for micro-batch 1"},
  };
  const std::vector<Spoiling> waits = {
      {"does not wait for the backward", Defect::early_reduce, [](List& x) { x[find(x, "reduce_scatter1.1")].waits.clear(); },
       "backward for micro-batch"},
  };
  for (ShardLevel level : {optimizer, gradients, parameters}) {
    for (int dp : {1, 2}) {
      const Program program = program_of({.dp = dp, .shard = 2, .shard_level = level, .micro_batches = 2});
      expect_all_found(program, order);
      expect_all_found(program, waits, Waits::as_spoiled);
    }
  }
}

TEST(VerifyReduceScatter, between_micro_batches) {
  expect_all_found(
      program_of(zero3()),
      {
          {"before its micro-batch", Defect::early_reduce,
           [](List& x) { move(x, find(x, "reduce_scatter2.0"), find(x, "backward2.0")); }},
          {"after the next one has added", Defect::early_reduce,
           [](List& x) { move(x, find(x, "reduce_scatter1.0"), find(x, "backward1.1")); }, "still reducing"},
          {"after the next block is in its buffer", Defect::buffer_conflict,
           [](List& x) { move(x, find(x, "reduce_scatter2.0"), find(x, "backward0.0")); }, "gradients of block 2 'layer2'"},
          {"left out though its buffer is shared", Defect::buffer_conflict,
           [](List& x) { drop(x, find(x, "reduce_scatter2.0")); }, "gradients of block 2 'layer2'"},
      });
  expect_all_found(
      program_of(zero3()),
      {
          {"backward that does not wait for its buffer", Defect::buffer_conflict,
           [](List& x) { stop_waiting(x, find(x, "backward0.0"), find(x, "reduce_scatter2.0")); }, "gradients of block 2"},
      },
      Waits::as_spoiled);
  // With separate buffers, so that only the block's own gradients are at stake.
  Program own_buffers = build_program(tied_model(3), {.shard = 2, .shard_level = gradients, .micro_batches = 2});
  own_buffers.buffers[0].gradient.clear();
  own_buffers.lists[0] = link_waits(own_buffers.lists[0], own_buffers, own_buffers.buffers[0]);
  expect_all_found(
      own_buffers,
      {
          {"backward that adds during the reduce", Defect::early_reduce,
           [](List& x) { stop_waiting(x, find(x, "backward1.1"), find(x, "reduce_scatter1.0")); }, "still reducing"},
          {"backward that adds to tied weights", Defect::early_reduce,
           [](List& x) { stop_waiting(x, find(x, "backward2.1"), find(x, "reduce_scatter0.0")); }, "still reducing"},
      },
      Waits::as_spoiled);
}

TEST(VerifyReduceScatter, sums_over_replicas_come_after) {
  const std::vector<Spoiling> order = {
      {"no reduce", Defect::missing_reduce, [](List& x) { drop(x, find(x, "reduce1-1@dp")); }, "over the 2 replicas"},
      {"two reduces", Defect::double_reduce, [](List& x) { repeat(x, find(x, "reduce1-1@dp")); },
       "'layer1' was reduced already"},
      {"reduce before the reduce_scatter", Defect::early_reduce,
       [](List& x) { move(x, find(x, "reduce1-1@dp"), find(x, "reduce_scatter1.1")); }, "last reduce_scatter of block 1"},
      {"norm before the last reduce", Defect::early_norm,
       [](List& x) { move(x, find(x, "norm0-2@shard"), find(x, "reduce0-0@dp")); }, "reduce of block 0"},
  };
  expect_all_found(program_of(zero3()), order);
  const std::vector<Spoiling> waits = {
      {"reduce that does not wait", Defect::early_reduce,
       [](List& x) { stop_waiting(x, find(x, "reduce1-1@dp"), find(x, "reduce_scatter1.1")); }, "last reduce_scatter"},
      {"norm that does not wait", Defect::early_norm,
       [](List& x) { stop_waiting(x, find(x, "norm0-2@shard"), find(x, "reduce1-1@dp")); }, "reduce of block 1"},
  };
  expect_all_found(program_of(zero3()), waits, Waits::as_spoiled);
}

TEST(VerifyReduceScatter, norm_and_update_wait_for_it) {
  const auto update = [](List& x) { stop_waiting(x, find(x, "update1-1"), find(x, "reduce_scatter1.1")); };
  const auto norm = [](List& x) { stop_waiting(x, find(x, "norm0-2@shard"), find(x, "reduce_scatter1.1")); };
  StepLayout clipped = zero1();
  clipped.clip = true;
  expect_all_found(program_of(zero1()), {{"update", Defect::early_update, update, "last reduce_scatter"}}, Waits::as_spoiled);
  expect_all_found(program_of(clipped), {{"norm", Defect::early_norm, norm, "last reduce_scatter"}}, Waits::as_spoiled);
}

TEST(VerifyReduceScatter, slots_are_closed_before) {
  for (ShardLevel level : {optimizer, gradients, parameters}) {
    const auto spoil = [](List& x) { move(x, find(x, "reduce_scatter1.1"), find(x, "combine1-1s1")); };
    expect_all_found(program_of({.shard = 2, .shard_level = level, .keep_order = true, .micro_batches = 2, .slots = 2}),
                     {{"before the last slot is closed", Defect::early_reduce, spoil, "last slot has not been closed"}});
  }
}

// Each list is valid alone.
TEST(VerifySharded, ranks_must_meet_on_the_same_axes_in_the_same_order) {
  const auto two_lists = [](const StepLayout& other) {
    Program program = program_of(zero3());
    const Program second = program_of(other);
    program.lists.push_back(second.lists[0]);
    program.buffers.push_back(second.buffers[0]);
    program.list_of_rank = {0, 0, 1, 1};
    return program;
  };
  StepLayout other_depth = zero3();
  other_depth.prefetch = 0;
  StepLayout unclipped = zero3();
  unclipped.clip = false;
  Program no_norm = two_lists(unclipped);
  no_norm.needs_norm = false;  // so that a list without it is valid alone
  verify(two_lists(zero3()));
  expect_defect(two_lists(other_depth), Defect::order_mismatch, "rank 0 issues gather of block 1", 2);
  expect_defect(no_norm, Defect::order_mismatch, "rank 2 issues no more", 2);
}

TEST(VerifySharded, collectives_are_over_the_ranks_that_hold_the_rest) {
  const auto over = [](const char* which, AxisSet axes) { return [=](List& x) { x[find(x, which)].axes = axes; }; };
  const AxisSet none = kNoAxes, dp = kReplicaAxis, shard = kShardAxis, data = kDataAxes;
  expect_all_found(
      program_of(zero3()),
      {{"gather of replicas", Defect::wrong_axis, over("gather1", dp), "over axis 'dp', must be over 'shard'"},
       {"gather of neighbours, who keep nothing", Defect::wrong_axis, over("gather1", kInnerAxis), "'inner shard'"},
       {"gather of one rank", Defect::wrong_axis, over("gather1", none), "'none'"},
       {"reduce_scatter of all", Defect::wrong_axis, over("reduce_scatter1.1", data), "must be over 'shard'"},
       {"reduce of all, whose shards differ", Defect::wrong_axis, over("reduce1-1@dp", data), "must be over 'dp'"},
       {"reduce of stages that share nothing", Defect::missing_reduce, over("reduce1-1@dp", kPipelineAxis),
        "over the 2 replicas"},
       {"norm of one shard", Defect::wrong_axis, over("norm0-2@shard", none), "must be over 'shard'"},
       {"norm of replicas", Defect::wrong_axis, over("norm0-2@shard", data), "must be over 'shard'"},
       {"losses of one replica", Defect::wrong_axis, over("reduce_loss", shard), "must be over 'dp+shard'"},
       {"a release along an axis", Defect::wrong_axis, over("release1", shard), "must be over 'none'"}});
  expect_all_found(program_of({.dp = 2, .shard = 2, .bucket_bytes = 1, .clip = true}),
                   {{"reduce over half of the replicas", Defect::wrong_axis, over("reduce1-1", dp), "must be over 'dp+shard'"},
                    {"norm of copies", Defect::wrong_axis, over("norm0-2", data), "must be over 'none'"}});
}

}  // namespace
}  // namespace weft::verify_sharded_test
