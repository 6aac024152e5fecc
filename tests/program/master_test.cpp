// Naive data parallelism as a program: the actions and costs of each rank, and detection of every defect.
#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "tests/program/verify/spoil.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"
#include "weft/program/copies.h"
#include "weft/program/cost.h"
#include "weft/program/memory.h"
#include "weft/program/stage_ranks.h"

namespace weft::master_test {
namespace {

Program master_of(int ranks, StepLayout layout = {}, const ModelCost& model = toy_model(2)) {
  layout.pp = ranks;
  layout.master = true;
  if (layout.micro_batches == 1) layout.micro_batches = ranks;
  return build_program(model, layout);
}

/// The tree of group.h: tree(lo, hi) = tree(lo, mid) + tree(mid, hi).
std::string group_sum(int lo, int hi) {
  if (hi - lo == 1) return std::to_string(lo);
  int half = 1;
  while (2 * half < hi - lo) half *= 2;
  return "(" + group_sum(lo, lo + half) + "+" + group_sum(lo + half, hi) + ")";
}

std::string tree_sum(int pp, int ranks) {
  std::string sum = std::to_string(pp);
  for (const int child : tree_children(pp, ranks)) {
    EXPECT_EQ(tree_parent(child), pp);
    sum = "(" + sum + "+" + tree_sum(child, ranks) + ")";
  }
  return sum;
}

TEST(Master, adds_up_as_a_group_does) {
  for (int ranks = 1; ranks <= 33; ++ranks) EXPECT_EQ(tree_sum(0, ranks), group_sum(0, ranks));
}

TEST(Master, a_step_word_for_word) {
  const Program program = master_of(2);
  EXPECT_EQ(text(program.of(0)),
            "load0 load1 send_batch0.1>1 send_weights0>1 send_weights1>1 forward0.0 forward1.0 receive_activation1.1<1 loss0 "
            "loss1 send_gradient1.1>1 backward1.0 receive_sum1<1 backward0.0 receive_sum0<1 reduce_loss@pp+dp+shard "
            "update0-1");
  EXPECT_EQ(text(program.of(1)),
            "receive_batch0.1<0 receive_weights0<0 receive_weights1<0 forward0.1 forward1.1 send_activation1.1>0 "
            "receive_gradient1.1<0 backward1.1 send_sum1>0 backward0.1 send_sum0>0 reduce_loss@pp+dp+shard");
  EXPECT_EQ(stage_rank_of_block(program), (std::vector<int>{0, 0}));
  verify(program);
}

TEST(Master, slots_and_norms) {
  const Program program = master_of(2, {.keep_order = true, .micro_batches = 4, .slots = 2, .clip = true}, toy_model(1));
  EXPECT_EQ(text(program.of(1)),
            "receive_batch0.2<0 receive_batch0.3<0 receive_weights0<0 forward0.2 send_activation0.2>0 forward0.3 "
            "send_activation0.3>0 receive_gradient0.2<0 receive_gradient0.3<0 backward0.2 combine0-0s0 backward0.3 "
            "combine0-0s1 send_sum0>0 reduce_loss@pp+dp+shard norm0-0@pp");
  verify(program);
}

TEST(Master, one_rank_is_its_own) {
  const Program program = master_of(1, {.micro_batches = 3});
  EXPECT_EQ(program.copies, 1);
  EXPECT_EQ(text(program.of(0)), text(build_program(toy_model(2), {.micro_batches = 3}).of(0)));
}

TEST(Master, its_traffic_and_memory) {
  const ModelCost model = toy_model(3);
  for (const int ranks : {2, 3, 4, 8}) {
    SCOPED_TRACE(ranks);
    const Program program = master_of(ranks, {}, model);
    verify(program);
    const int64_t bytes = 3 * 256 * kFloatBytes, output = model.blocks.back().output_bytes, input = model.input_bytes;
    StepCost all;
    for (const InstructionList& list : program.lists) {
      const StepCost cost = step_cost(list);
      all.weight_wire_bytes += cost.weight_wire_bytes;
      all.gradient_wire_bytes += cost.gradient_wire_bytes;
      all.transfer_wire_bytes += cost.transfer_wire_bytes;
    }
    EXPECT_EQ(all.weight_wire_bytes, (ranks - 1) * bytes);
    EXPECT_EQ(all.gradient_wire_bytes, (ranks - 1) * bytes);
    EXPECT_EQ(all.transfer_wire_bytes, (ranks - 1) * (input + 2 * output));
    const StepCost master = step_cost(program.of(0));
    EXPECT_EQ(master.weight_wire_bytes, static_cast<int64_t>(tree_children(0, ranks).size()) * bytes);
    EXPECT_EQ(master.gradient_wire_bytes, 0);
    // Outputs and their gradients of the whole batch, and kept activations of its own part.
    int64_t kept = input - output;
    for (const BlockCost& block : model.blocks) kept += block.saved_bytes + block.output_bytes;
    EXPECT_EQ(master.peak_activation_bytes, kept + ranks * 2 * output);
    const MemoryOptions adam = {.optimizer_states = 2};
    const auto of = [&](int rank, MemoryCategory category) {
      return estimate_memory(program, rank, adam).peak[static_cast<size_t>(category)];
    };
    EXPECT_EQ(of(0, MemoryCategory::optimizer), 2 * bytes);
    EXPECT_EQ(of(ranks - 1, MemoryCategory::optimizer), 0);
    EXPECT_EQ(of(ranks - 1, MemoryCategory::weights), bytes);
    EXPECT_EQ(of(ranks - 1, MemoryCategory::gradients), bytes);
    EXPECT_EQ(of(0, MemoryCategory::gradients), bytes + bytes / 3) << "a block's sum as it arrives";
  }
}

auto dropping(const char* which) {
  return [=](List& x) { drop(x, find(x, which)); };
}
auto doubling(const char* which) {
  return [=](List& x) { repeat(x, find(x, which)); };
}
auto moving(const char* which, const char* to) {
  return [=](List& x) { move(x, find(x, which), find(x, to)); };
}
auto changing(const char* which, const std::function<void(Instruction&)>& change) {
  return [=](List& x) { change(x[find(x, which)]); };
}

TEST(Master, every_defect_of_its_own_is_found) {
  expect_all_found(
      master_of(4),
      {
          {"a batch not sent", Defect::missing_send, dropping("send_batch0.1>1"), "micro-batch 1 is never sent to its rank"},
          {"a batch before it is loaded", Defect::use_before_load, moving("send_batch0.1>1", "load1"), "not been loaded"},
          {"losses without the outputs", Defect::use_before_load, dropping("receive_activation1.2<2"), "has not been received"},
          {"no gradient sent", Defect::missing_send, dropping("send_gradient1.3>3"), "never sent back"},
          {"a gradient before its loss", Defect::backward_before_loss, moving("send_gradient1.3>3", "loss3"), "not been run"},
          {"a loss left out", Defect::backward_before_loss, dropping("loss3"), "has not been run yet"},
          {"weights not sent", Defect::transfer_mismatch, dropping("send_weights1>2"), "message 2 from rank 0 to rank 2", 0, 2},
          {"weights sent to the wrong rank", Defect::transfer_mismatch,
           changing("send_weights0>2", [](Instruction& x) { x.peer = 1; }), "", 0, 1},
          {"gradients not taken in", Defect::transfer_mismatch, dropping("receive_sum1<2"), "message 1 from rank 2 to rank 0",
           0, 0},
          {"taken in before its own are there", Defect::early_reduce, moving("receive_sum0<1", "backward0.0"),
           "has not been run yet"},
          {"summed in another order", Defect::bad_order, moving("receive_sum0<2", "receive_sum0<1"), "that of an earlier rank"},
          {"another block's batch", Defect::out_of_range,
           changing("send_batch0.1>1", [](Instruction& x) { x.first = 1, x.last = 2; }), "block 1 takes no micro-batch"},
          {"not updated", Defect::missing_update, dropping("update0-1"), "never updated"},
          {"another rank's micro-batch", Defect::missing_backward, changing("backward0.0", [](Instruction& x) { x.micro = 1; }),
           "no backward for micro-batch 0"},
      });
}

TEST(Master, every_defect_of_the_others_is_found) {
  const Program program = master_of(4, {.clip = true});
  expect_all_found(
      program,
      {
          {"no weights", Defect::not_gathered, dropping("receive_weights1<0"), "have not been received yet", 2},
          {"weights handed on before they are there", Defect::not_gathered, moving("send_weights1>3", "receive_weights1<0"),
           "have not been received yet", 2},
          {"weights taken twice", Defect::repeated, doubling("receive_weights1<0"), "received already", 1},
          {"weights after they are needed", Defect::not_gathered, moving("receive_weights1<0", "forward1.1"), "", 1},
          {"no batch", Defect::use_before_load, dropping("receive_batch0.1<0"), "", 1},
          {"output not sent", Defect::missing_send, dropping("send_activation1.1>0"), "never sent to the master", 1},
          {"output before it is computed", Defect::use_before_load, moving("send_activation1.1>0", "forward1.1"), "", 1},
          {"no gradient", Defect::backward_before_loss, dropping("receive_gradient1.1<0"), "has not been received", 1},
          {"its sum not sent", Defect::missing_reduce, dropping("send_sum1>0"), "never sent towards the master", 2},
          {"its sum sent twice", Defect::double_reduce, doubling("send_sum1>0"), "sent already", 2},
          {"sent before it is whole", Defect::early_reduce, moving("send_sum0>0", "backward0.1"), "", 1},
          {"sent before all is taken in", Defect::early_reduce, moving("send_sum1>0", "receive_sum1<3"), "from rank 3", 2},
          {"an update", Defect::misplaced_block, [](List& x) { x.push_back({.op = Op::update, .first = 0, .last = 2}); },
           "only the master may do it", 1},
          {"a load", Defect::misplaced_block, [](List& x) { x.insert(x.begin(), {.op = Op::load, .micro = 0}); },
           "only the master may do it", 1},
          {"another's micro-batch", Defect::misplaced_block,
           [](List& x) {
             Instruction again = x[find(x, "forward0.1")];
             again.micro = 3;
             x.insert(x.begin() + find(x, "forward0.1"), again);
           },
           "this rank runs micro-batches 1 to 1", 1},
      });
  expect_all_found(program,
                   {{"a forward that does not wait for the weights", Defect::not_gathered,
                     [](List& x) { x[find(x, "forward0.1")].waits.clear(); }, "", 1}},
                   Waits::as_spoiled);
}

/// Ranks that send their sums to each other and not to the master.
TEST(Master, sums_in_a_ring_are_found) {
  Program program = master_of(4);
  for (InstructionList& list : program.lists) {
    std::erase_if(list, [](const Instruction& x) { return x.what == Payload::sum; });
  }
  const auto add = [&program](int pp, Op op, int block, int peer) {
    InstructionList& list = program.lists[pp];
    list.insert(list.begin() + find(list, Op::reduce_loss), {.op = op,
                                                             .lane = Lane::comm,
                                                             .first = block,
                                                             .last = block + 1,
                                                             .what = Payload::sum,
                                                             .peer = peer,
                                                             .wire_bytes = op == Op::send ? 1024 : 0});
  };
  for (const int block : {1, 0}) {
    for (const int pp : {1, 2, 3}) {
      add(pp, Op::receive, block, pp == 1 ? 3 : pp - 1);
      add(pp, Op::send, block, pp == 3 ? 1 : pp + 1);
    }
  }
  for (int pp = 0; pp < 4; ++pp) program.lists[pp] = link_waits(program.lists[pp], program, program.buffers[pp]);
  expect_defect(program, Defect::deadlock, "rank 3 in receive of the summed gradients of block 1");
}

/// Its list sends and receives a matching replacement, so that only a comparison of all ranks detects it.
TEST(Master, a_rank_without_a_block_is_found) {
  Program program = master_of(2);
  program.holders[1] = {0};
  InstructionList& list = program.lists[1];
  for (const char* moved : {"send_activation1.1>0", "receive_gradient1.1<0"}) {
    Instruction& x = list[find(list, moved)];
    x.first = 0, x.last = 1;
  }
  std::erase_if(list, [](const Instruction& x) { return x.first == 1; });
  program.lists[1] = link_waits(list, program, program.buffers[1]);
  expect_defect(program, Defect::misplaced_block, "rank 1: no rank of its pipeline runs block 1", 1);
}

TEST(Master, refuses_options_that_it_excludes) {
  const auto refusal = [](StepLayout layout) {
    try {
      master_of(2, std::move(layout));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal({.dp = 2}),
            "layout: a layout with a master uses only the pipeline axis, without sharding; set the other axes to 1");
  EXPECT_EQ(refusal({.shard_level = ShardLevel::optimizer}), refusal({.dp = 2}));
  EXPECT_EQ(refusal({.offload = {.optimizer = true}}),
            "layout: a layout with a master cannot offload; set StepLayout::offload to none");
  EXPECT_EQ(refusal({.keep_order = true, .micro_batches = 6, .slots = 2}),
            "layout: 6 micro-batches do not divide over a master's 2 ranks with 2 slots each; use 8 micro-batches");
  Program program = master_of(2);
  program.slots = 2;
  EXPECT_THROW(verify(program), VerifyError);
}

}  // namespace
}  // namespace weft::master_test
