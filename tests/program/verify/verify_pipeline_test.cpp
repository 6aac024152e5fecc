// Every defect of a pipeline, put into a correct program by one change: verify must name it.
#include <gtest/gtest.h>

#include "tests/program/pipeline/schedule_table.h"
#include "tests/program/verify/spoil.h"
#include "weft/program/build/build.h"

namespace weft {
namespace {

// Four blocks on two pipeline ranks, two replicas: 1F1B with three micro-batches.
Program two_stages(const char* schedule = "1f1b", StepLayout layout = {.dp = 2, .clip = true}) {
  return build_program(splittable(toy_model(4)), pipelined(std::move(layout), schedule_named(schedule), 2, 3));
}

void swap(List& list, const char* one, const char* other) { std::swap(list[find(list, one)], list[find(list, other)]); }
auto dropping(const char* which) {
  return [=](List& x) { drop(x, find(x, which)); };
}
auto doubling(const char* which) {
  return [=](List& x) { repeat(x, find(x, which)); };
}
auto swapping(const char* one, const char* other) {
  return [=](List& x) { swap(x, one, other); };
}
auto moving(const char* which, const char* to) {
  return [=](List& x) { move(x, find(x, which), find(x, to)); };
}
auto changing(const char* which, const std::function<void(Instruction&)>& change) {
  return [=](List& x) { change(x[find(x, which)]); };
}
auto to_peer(int peer) {
  return [=](Instruction& x) { x.peer = peer; };
}
auto to_micro(int micro) {
  return [=](Instruction& x) { x.micro = micro; };
}
void to_block_2(Instruction& x) { x.first = 2, x.last = 3; }

TEST(VerifyTransfers, every_defect_of_a_send_is_found) {
  expect_all_found(
      two_stages(),
      {
          {"activation not sent", Defect::missing_send, dropping("send_activation1.1>1"),
           "block 1 'layer1': its output for micro-batch 1 is never sent"},
          {"gradient not sent", Defect::missing_send, dropping("send_gradient1.1>0"),
           "block 2 'layer2': the gradient of its input for micro-batch 1 is never sent back", 1},
          {"sent twice", Defect::repeated, doubling("send_activation1.1>1"), "sent already by instruction"},
          {"gradient sent twice", Defect::repeated, doubling("send_gradient1.0>0"), "sent already", 1},
          {"sent in another order", Defect::transfer_mismatch,
           [](List& x) { move(x, find(x, "send_activation1.0>1"), find(x, "send_activation1.1>1")); },
           "message 0 from rank 0 to rank 2: rank 0 has send of the output of block 1 'layer1', micro-batch 1", 0, 2},
          {"sent to itself", Defect::transfer_mismatch, changing("send_activation1.0>1", to_peer(0)),
           "from rank 0 to rank 0: rank 0 has send", 0, 0},
          {"sent to no rank", Defect::out_of_range, changing("send_activation1.0>1", to_peer(2)), "pipeline rank 2 of 2"},
          {"another micro-batch", Defect::repeated, changing("send_activation1.0>1", to_micro(2)),
           "sent already by instruction"},
          {"another block", Defect::missing_send,
           changing("send_activation1.0>1", [](Instruction& x) { x.first = 0, x.last = 1; }),
           "its output for micro-batch 0 is never sent"},
          {"its gradient", Defect::missing_send,
           changing("send_activation1.0>1", [](Instruction& x) { x.what = Payload::gradient; }), "never sent"},
          {"neither of them", Defect::out_of_range,
           changing("send_activation1.0>1", [](Instruction& x) { x.what = Payload::weights; }), "neither an activation nor"},
          {"before it is computed", Defect::use_before_load, moving("send_activation1.0>1", "forward1.0"),
           "it has not been computed yet"},
          {"gradient before it is computed", Defect::backward_before_loss, moving("send_gradient1.0>0", "backward2.0"),
           "the backward that makes it has not been run yet", 1},
      });
}

TEST(VerifyTransfers, every_defect_of_a_receive_is_found) {
  expect_all_found(
      two_stages(),
      {
          {"activation not received", Defect::use_before_load, dropping("receive_activation1.1<0"),
           "its input, the output of block 1 'layer1', has not been received yet", 1},
          {"gradient not received", Defect::backward_before_loss, dropping("receive_gradient1.1<1"),
           "the gradient of its output has not been received yet"},
          {"received twice", Defect::repeated, doubling("receive_activation1.1<0"), "received already by instruction", 1},
          {"received in another order", Defect::transfer_mismatch, moving("receive_gradient1.1<1", "receive_gradient1.0<1"),
           "message 0 from rank 2 to rank 0: rank 2 has send of the gradient", 0, 0},
          {"from itself", Defect::transfer_mismatch, changing("receive_activation1.0<0", to_peer(1)),
           "message 0 from rank 0 to rank 2: rank 0 has send of the output of block 1 'layer1', micro-batch 0", 1, 2},
          {"another micro-batch", Defect::repeated, changing("receive_activation1.0<0", to_micro(1)), "received already", 1},
          {"another block", Defect::use_before_load, changing("receive_activation1.0<0", to_block_2),
           "has not been received yet", 1},
          {"after it is needed", Defect::use_before_load, moving("receive_activation1.0<0", "forward2.0"), "", 1},
          {"a gradient instead", Defect::use_before_load,
           changing("receive_activation1.0<0", [](Instruction& x) { x.what = Payload::gradient; }), "", 1},
      });
  expect_all_found(two_stages(),
                   {{"a forward that does not wait for it", Defect::use_before_load,
                     [](List& x) { stop_waiting(x, find(x, "forward2.0"), find(x, "receive_activation1.0<0")); },
                     "has not been received yet", 1},
                    {"a backward that does not wait for it", Defect::backward_before_loss,
                     [](List& x) { stop_waiting(x, find(x, "backward1.0"), find(x, "receive_gradient1.0<1")); },
                     "has not been received yet"},
                    {"a send that does not wait for the forward", Defect::use_before_load,
                     [](List& x) { x[find(x, "send_activation1.0>1")].waits.clear(); }, "has not been computed"}},
                   Waits::as_spoiled);
}

TEST(VerifyTransfers, the_ranks_in_the_middle_too) {
  const Program program = build_program(toy_model(6), pipelined({}, schedule_named("1f1b"), 3, 3));
  expect_all_found(program,
                   {{"sent on to the one before", Defect::transfer_mismatch, changing("send_activation3.0>2", to_peer(0)),
                     "message 0 from rank 1 to rank 0: rank 1 has send of the output of block 3", 1, 0},
                    {"sent back to the one after", Defect::transfer_mismatch, changing("send_gradient1.0>0", to_peer(2)),
                     "from rank 1 to rank 0", 1, 0},
                    {"received from the one after", Defect::transfer_mismatch, changing("receive_activation1.0<0", to_peer(2)),
                     "from rank 0 to rank 1", 1, 1},
                    {"no gradient for the first", Defect::missing_send, dropping("send_gradient1.2>0"), "never sent back", 1}});
}

TEST(VerifyPipeline, order_of_a_split_backward) {
  const Program program = two_stages("zb-h1");
  expect_all_found(
      program,
      {
          {"weights' part before the input's", Defect::backward_before_loss,
           swapping("backward_input1.0", "backward_weight1.0"),
           "the part that makes the input's gradient has not been run yet"},
          {"weights' parts out of order", Defect::bad_order, swapping("backward_weight3.0", "backward_weight3.1"),
           "micro-batch 0 has not been added to its gradients yet", 1},
          {"no weights' part", Defect::missing_backward, dropping("backward_weight1.1"),
           "no backward of its weights for micro-batch 1"},
          {"no input's part", Defect::missing_backward, dropping("backward_input0.2"), "no backward for micro-batch 2"},
          {"two weights' parts", Defect::double_backward, doubling("backward_weight1.1"), "added to the gradients already"},
          {"two input's parts", Defect::double_backward, doubling("backward_input1.1"), "run already"},
          {"a whole backward with its parts", Defect::double_backward,
           changing("backward_input1.1", [](Instruction& x) { x.op = Op::backward; }), "added to the gradients already"},
          {"input's part in the wrong order", Defect::backward_before_loss, swapping("backward_input1.0", "backward_input0.0"),
           "next block, 1 'layer1'"},
          {"reduced before the last weights' part", Defect::early_reduce, moving("reduce0-1", "backward_weight0.2"),
           "for micro-batch 2 has not been run"},
      });
}

TEST(VerifyPipeline, micro_batches_are_added_in_order) {
  const auto backwards = [](List& x) {
    for (const char* block : {"backward1", "backward0"})
      swap(x, fmt::format("{}.0", block).c_str(), fmt::format("{}.1", block).c_str());
  };
  // gpipe's gradients are all ready by the last forward of rank 0, once they are received first.
  const auto received_first = [backwards](List& x) {
    move(x, find(x, "receive_gradient1.1<1"), find(x, "backward1.0"));
    backwards(x);
  };
  expect_all_found(two_stages("gpipe"), {{"the second one first", Defect::bad_order, received_first,
                                          "micro-batch 0 has not been added to its gradients yet"}});
}

TEST(VerifyPipeline, targets_are_loaded_before_a_head_that_makes_the_losses) {
  const auto late = [](List& x) { move(x, find(x, "load1"), find(x, "loss1") - 1); };
  ModelCost model = toy_model(4);
  model.head_takes_targets = true;
  Program program = build_program(model, pipelined({.dp = 2}, schedule_named("1f1b"), 2, 3));
  expect_all_found(program, {{"between head and loss", Defect::use_before_load, late,
                              "(forward of block 3 'layer3' on micro-batch 1): micro-batch 1 has not been loaded yet; the "
                              "block makes the losses from its targets",
                              1},
                             {"after the loss", Defect::use_before_load, moving("load0", "loss0"), "from its targets", 1},
                             {"not loaded", Defect::use_before_load, dropping("load2"), "from its targets", 1}});
  // Without such a head, loads before the losses suffice.
  program.head_takes_targets = false;
  List& list = program.lists[1];
  late(list);
  list = link_waits(list, program, program.buffers[1]);
  verify(program);
}

TEST(VerifyPipeline, a_head_that_makes_the_losses_waits_for_targets_on_another_lane) {
  ModelCost model = toy_model(4);
  model.head_takes_targets = true;
  Program program = build_program(model, pipelined({}, schedule_named("1f1b"), 2, 3));
  List& list = program.lists[1];
  list[find(list, "load0")].lane = Lane::copy;
  list = link_waits(list, program, program.buffers[1]);
  const auto impatient = [](List& x) { stop_waiting(x, find(x, "forward3.0"), find(x, "load0")); };
  expect_all_found(program, {{"no wait", Defect::use_before_load, impatient, "from its targets", 1}}, Waits::as_spoiled);
}

// Placement of another cut of the same model.
Program recut(int place) {
  const auto cut = [](const std::vector<int>& first_block) {
    StepLayout layout = pipelined({}, schedule_named("1f1b"), 2, 3);
    layout.first_block = first_block;
    return build_program(toy_model(4), layout);
  };
  Program program = cut({0, 2});
  const Program other = cut({0, 1});
  program.lists[place] = other.lists[place];
  return program;
}

TEST(VerifyPipeline, every_block_is_run_by_one_rank) {
  Program by_two = recut(1), by_nobody = recut(0);
  expect_defect(by_two, Defect::misplaced_block, "rank 1 holds block 1 'layer1', but the program says", 1);
  expect_defect(by_nobody, Defect::misplaced_block, "rank 0 does not hold block 1 'layer1', but the program says", 0);
  by_two.holders = {{0}, {0, 1}, {1}, {1}};
  by_two.block_numel[1] = 0;  // else its two holders would have to be tied
  expect_defect(by_two, Defect::misplaced_block, "rank 1 runs block 1 'layer1', but so does rank 0", 1);
  by_nobody.holders = {{0}, {}, {1}, {1}};
  expect_defect(by_nobody, Defect::misplaced_block, "no rank of its pipeline runs block 1 'layer1'", 0);
}

TEST(VerifyPipeline, only_blocks_of_the_rank_are_used) {
  const auto to_block = [](int block) { return [=](Instruction& x) { x.first = block, x.last = block + 1; }; };
  const Program program = two_stages("1f1b", {.shard = 2, .shard_level = ShardLevel::parameters, .prefetch = 0});
  const auto adding = [](Instruction x) { return [=](List& list) { list.push_back(x); }; };
  expect_all_found(
      program,
      {
          {"update of another's block", Defect::misplaced_block, adding({.op = Op::update, .first = 3, .last = 4}),
           "block 3 'layer3' is not on this rank"},
          {"update across the cut", Defect::misplaced_block, changing("update1-1", [](Instruction& x) { x.last = 3; }),
           "block 2 'layer2' is not on this rank"},
          {"gather of another's block", Defect::misplaced_block,
           [&](List& x) {
             x.insert(x.begin(), {.op = Op::gather, .lane = Lane::comm, .first = 2, .last = 3, .axes = kShardAxis});
           },
           "block 2 'layer2' is not on this rank"},
          {"update of another's block instead", Defect::missing_update, changing("update1-1", to_block(2)), "block 1 'layer1'"},
          {"forward of another's block", Defect::misplaced_block, changing("forward1.0", to_block(2)),
           "rank 0 holds block 2 'layer2', but the program says that pipeline rank 0 does not"},
      });
}

Program tied(const char* schedule = "1f1b", int pp = 2) {
  ModelCost model = tied_model(6);
  model.blocks[5].uses = {0, 1};
  return build_program(model, pipelined({.dp = 2, .bucket_bytes = 1, .clip = true}, schedule_named(schedule), pp, 2 * pp));
}

TEST(VerifyTies, every_defect_is_found) {
  expect_all_found(tied(),
                   {
                       {"no tie", Defect::missing_reduce, dropping("reduce0-0@tied"), "over the 2 stages that share it"},
                       {"no tie on the other side", Defect::missing_reduce, dropping("reduce1-1@tied"),
                        "over the 2 stages that share it", 1},
                       {"two ties", Defect::double_reduce, doubling("reduce0-0@tied"), "'layer0' was reduced already"},
                       {"tie before the replicas are summed", Defect::early_reduce, swapping("reduce0-0", "reduce0-0@tied"),
                        "does not wait for the reduce of block 0"},
                       {"norm before the tie", Defect::early_norm, moving("norm0-2@pp", "reduce1-1@tied"),
                        "reduce of block 1 'layer1' over the stages that share it"},
                       {"update before the tie", Defect::early_update,
                        [](List& x) {
                          x[find(x, Op::norm)].first = 1;  // leaves block 0 to the update
                          move(x, find(x, "update0-0"), find(x, "reduce0-0@tied"));
                        },
                        "over the stages that share it"},
                       {"over the replicas instead", Defect::double_reduce,
                        changing("reduce0-0@tied", [](Instruction& x) { x.axes = kDataAxes; }), "'layer0' was reduced already"},
                       {"over all ranks", Defect::double_reduce,
                        changing("reduce0-0@tied", [](Instruction& x) { x.axes = kPipelineAxis | kDataAxes; })},
                       {"of a block that is not shared", Defect::wrong_axis,
                        changing("reduce2-2", [](Instruction& x) { x.axes = kPipelineAxis | kShardAxis; }),
                        "over axis 'pp+shard', must be over 'dp+shard'"},
                       {"of another block", Defect::missing_reduce,
                        changing("reduce0-0@tied", [](Instruction& x) { x.first = 2, x.last = 3; }), "block 0 'layer0'"},
                   });
}

TEST(VerifyTies, holders_are_as_the_program_says) {
  Program program = tied();
  for (int place : {0, 1}) {
    List& list = program.lists[place];
    drop(list, find(list, "reduce0-0@tied"));
    list = link_waits(list, program, program.buffers[place]);
  }
  expect_defect(program, Defect::missing_reduce, "over the 2 stages that share it");
  program.holders[0] = {0};  // so that the tie is not missed
  expect_defect(program, Defect::misplaced_block,
                "rank 2 holds block 0 'layer0', but the program says that pipeline rank 1 does not", 2);
  program = tied();
  program.holders[3].push_back(0);
  expect_defect(program, Defect::misplaced_block,
                "rank 0 does not hold block 3 'layer3', but the program says that pipeline rank 0 does");
}

TEST(VerifyPipeline, ranks_along_it_share_the_collectives_of_all) {
  const Program clipped = two_stages();
  Program no_norm = clipped;
  no_norm.needs_norm = false;  // so that a list without it is valid alone
  drop(no_norm.lists[1], find(no_norm.lists[1], Op::norm));
  no_norm.lists[1] = link_waits(no_norm.lists[1], no_norm, no_norm.buffers[1]);
  expect_defect(no_norm, Defect::order_mismatch, "rank 2 issues no more", 2);
  const auto over = [](AxisSet axes) { return [=](Instruction& x) { x.axes = axes; }; };
  expect_all_found(
      clipped,
      {
          {"norm of a stage", Defect::wrong_axis, changing("norm0-1@pp", over(kNoAxes)), "must be over 'pp'"},
          {"losses of the last stage", Defect::wrong_axis, changing("reduce_loss@pp+dp+shard", over(kDataAxes)),
           "must be over 'pp+dp+shard'", 1},
          {"no losses on a first stage", Defect::missing_reduce, dropping("reduce_loss@pp+dp+shard"), "no reduce_loss"},
      });
  expect_all_found(tied(), {{"ties in another order", Defect::order_mismatch, swapping("reduce0-0@tied", "reduce1-1@tied"),
                             "rank 0 issues reduce of block 0 'layer0'", 1, 2},
                            {"ties in another order on the first rank", Defect::order_mismatch,
                             swapping("reduce0-0@tied", "reduce1-1@tied"), "rank 0 issues reduce of block 1 'layer1'", 0, 2},
                            {"a tie after the losses", Defect::deadlock, swapping("reduce1-1@tied", "reduce_loss@pp+dp+shard"),
                             "each of these waits for another", 0, 0}});
}

// Three ranks share one block, two of these another one; each pair meets in one order.
TEST(VerifyPipeline, ties_of_different_ranks) {
  ModelCost model = toy_model(6);
  model.blocks[2].uses = {0};
  model.blocks[4].uses = {0};
  model.blocks[5].uses = {3};
  const Program program = build_program(model, pipelined({}, schedule_named("gpipe"), 3, 3));
  EXPECT_EQ(program.holders[0], (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(program.holders[3], (std::vector<int>{1, 2}));
  expect_all_found(program, {{"the last rank sums them in another order", Defect::order_mismatch,
                              swapping("reduce0-0@tied", "reduce3-3@tied"), "rank 1 issues reduce of block 0", 2}});
}

TEST(VerifyDeadlock, two_ranks_that_both_send_first) {
  // If a send waits for its receive: rank 0 sends micro-batch 1 and rank 1 a gradient, both before they receive.
  const Program program = build_program(toy_model(4), pipelined({}, schedule_named("1f1b"), 2, 2));
  expect_all_found(
      program, {{"both send", Defect::deadlock, moving("receive_activation1.1<0", "send_gradient1.0>0"),
                 "rank 0 in send of the output of block 1 'layer1', micro-batch 1, to pipeline rank 1 (instruction", 1, 0}});
  // Even if it does not: both receive before the other has computed the data.
  expect_all_found(
      program, {{"both receive", Defect::deadlock, [](List& x) { move(x, find(x, "receive_gradient1.0<1"), find(x, "load1")); },
                 "rank 1 in receive of the output of block 1 'layer1', micro-batch 1, from pipeline rank 0", 0, 0}});
}

TEST(VerifyDeadlock, three_ranks_in_a_ring) {
  const Program program = build_program(toy_model(6), pipelined({}, schedule_named("interleaved"), 3, 3));
  const Program good = program;
  verify(good);
  // Rank 0 receives from the last rank before it has sent the input for that message.
  expect_all_found(program,
                   {{"asks too early", Defect::deadlock,
                     [](List& x) { move(x, find(x, "receive_activation2.0<2"), find(x, "send_activation0.0>1")); },
                     "rank 0 in receive of the output of block 2 'layer2', micro-batch 0, from pipeline rank 2", 0, 0}});
}

// Both pipelines complete alone, and each pair of copies issues the same collectives in the same order; but one sums its
// gradients before it sends and the other after, so that four ranks wait in a ring.
TEST(VerifyDeadlock, copies_of_a_rank_meet_others_in_one_order) {
  Program program = two_stages("1f1b", {.dp = 2, .bucket_bytes = 1});
  const List first = program.lists[0], last = program.lists[1];
  List late = last;
  move(late, find(late, "send_gradient1.2>0"), find(late, "reduce2-2"));
  late = link_waits(late, program, program.buffers[1]);
  program.lists = {first, last, late};
  program.buffers.push_back(program.buffers[1]);
  program.list_of_rank = {0, 0, 1, 2};
  expect_defect(program, Defect::order_mismatch, "rank 3 issues send of the gradient", 3);
}

TEST(VerifyPipeline, good_programs_pass) {
  for (const NamedSchedule& named : schedule_table()) {
    for (const int pp : {1, 2, 4}) {
      for (const ShardLevel level : {ShardLevel::none, ShardLevel::optimizer, ShardLevel::gradients, ShardLevel::parameters}) {
        for (const bool shares : {false, true}) {
          const Schedule schedule = named.of(pp, 2 * pp);
          const int blocks = 2 * schedule.num_stages();
          const StepLayout layout = pipelined({.dp = 2, .shard = 2, .shard_level = level}, named, pp, 2 * pp);
          SCOPED_TRACE(fmt::format("{}, {} ranks, {}{}", named.name, pp, name(level), shares ? ", tied" : ""));
          EXPECT_NO_THROW(verify(build_program(splittable(shares ? tied_model(blocks) : toy_model(blocks)), layout)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
