// Every defect, put into a correct program by hand: verify must name it.
#include "weft/program/verify/verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/program/toy.h"
#include "tests/program/verify/spoil.h"
#include "weft/program/build/build.h"

namespace weft {
namespace {

// Three blocks, one bucket each; four micro-batches in two slots; two replicas; clipping. Two identical lists, so that one can
// differ.
Program good_program() {
  Program program = build_program(toy_model(3), {.dp = 2, .micro_batches = 4, .slots = 2, .bucket_bytes = 1, .clip = true});
  program.lists.push_back(program.lists[0]);
  program.buffers.push_back(program.buffers[0]);
  program.list_of_rank = {0, 1};
  return program;
}

const std::vector<Spoiling> kOutOfOrder = {
    {"two loads", Defect::repeated, [](List& x) { repeat(x, find(x, Op::load, 1)); }, "micro-batch 1"},
    {"two forwards", Defect::repeated, [](List& x) { repeat(x, find(x, Op::forward)); }, "layer0"},
    {"two losses", Defect::repeated, [](List& x) { repeat(x, find(x, Op::loss)); }},
    {"two loss reductions", Defect::repeated, [](List& x) { repeat(x, find(x, Op::reduce_loss)); }},
    {"two norms", Defect::repeated, [](List& x) { repeat(x, find(x, Op::norm)); }},
    {"no load", Defect::use_before_load, [](List& x) { drop(x, find(x, Op::load, 2)); }, "micro-batch 2 has not been loaded"},
    {"late load", Defect::use_before_load, [](List& x) { move(x, find(x, Op::load), 1); }},
    {"loads swapped", Defect::bad_order, [](List& x) { std::swap(x[find(x, Op::load, 1)], x[find(x, Op::load, 2)]); },
     "(load of micro-batch 2): micro-batch 1 has not been loaded yet"},
    {"no forward", Defect::missing_forward, [](List& x) { drop(x, find(x, Op::forward, 1)); },
     "block 1 'layer1': no forward for micro-batch 0"},
    {"forward out of order", Defect::use_before_load, [](List& x) { move(x, find(x, Op::forward, 1), find(x, Op::forward)); },
     "'layer0', has not been computed"},
    {"loss before the last forward", Defect::use_before_load,
     [](List& x) { move(x, find(x, Op::loss), find(x, Op::forward, 2)); }},
    {"no loss", Defect::backward_before_loss, [](List& x) { drop(x, find(x, Op::loss)); }, "loss of micro-batch 0"},
    {"backward before the loss", Defect::backward_before_loss,
     [](List& x) { move(x, find(x, Op::backward), find(x, Op::loss)); }},
    {"backward in the wrong order", Defect::backward_before_loss,
     [](List& x) { move(x, find(x, Op::backward, 1), find(x, Op::backward)); }, "next block, 2 'layer2'"},
    {"two backwards", Defect::double_backward, [](List& x) { repeat(x, find(x, Op::backward, 1)); },
     "already by instruction 6"},
    {"no backward of the first block", Defect::missing_backward, [](List& x) { drop(x, find(x, Op::backward, 2)); },
     "block 0 'layer0': no backward for micro-batch 0"},
    {"no backward of the last block", Defect::missing_backward, [](List& x) { drop(x, find(x, Op::backward, 9)); },
     "block 2 'layer2': no backward for micro-batch 3"},
    {"slot not closed", Defect::bad_combine, [](List& x) { drop(x, find(x, Op::combine)); }, "slot 0 is never closed"},
    {"last slot not closed", Defect::bad_combine, [](List& x) { drop(x, find(x, Op::combine, 1)); }, "slot 1 is never closed"},
    {"slot closed twice", Defect::bad_combine, [](List& x) { repeat(x, find(x, Op::combine)); }, "was closed already"},
    {"slot closed too early", Defect::bad_combine, [](List& x) { move(x, find(x, Op::combine), find(x, Op::backward, 5)); },
     "micro-batch 1 of the slot"},
    {"slot closed too late", Defect::bad_combine, [](List& x) { move(x, find(x, Op::combine), find(x, Op::backward, 6)); },
     "before slot 0 has been closed"},
    {"no reduce", Defect::missing_reduce, [](List& x) { drop(x, find(x, Op::reduce, 1)); },
     "without a reduce over the 2 replicas"},
    {"two reduces", Defect::double_reduce, [](List& x) { repeat(x, find(x, Op::reduce, 1)); }, "'layer1' was reduced already"},
    {"reduce before the backward", Defect::early_reduce,
     [](List& x) { move(x, find(x, Op::reduce), find(x, Op::backward, 9)); }, "micro-batch 3"},
    {"reduce before the combine", Defect::early_reduce, [](List& x) { move(x, find(x, Op::reduce), find(x, Op::combine, 1)); },
     "last slot of block 2"},
    {"loss reduction before the last loss", Defect::early_reduce,
     [](List& x) { move(x, find(x, Op::reduce_loss), find(x, Op::loss, 3)); }, "loss of micro-batch 3"},
    {"norm before the last reduce", Defect::early_norm, [](List& x) { move(x, find(x, Op::norm), find(x, Op::reduce, 2)); },
     "layer0"},
    {"no update", Defect::missing_update, [](List& x) { drop(x, find(x, Op::update)); }, "block 2 'layer2': never updated"},
    {"two updates", Defect::double_update, [](List& x) { repeat(x, find(x, Op::update)); }},
    {"update before its reduce", Defect::early_update, [](List& x) { move(x, find(x, Op::update), find(x, Op::reduce)); },
     "reduce of block 2"},
    {"update before the norm", Defect::early_update, [](List& x) { move(x, find(x, Op::update), find(x, Op::norm)); },
     "the norm"},
    {"norm of other blocks", Defect::early_update, [](List& x) { x[find(x, Op::norm)].first = 1; }, "leaves out"},
    {"no norm", Defect::missing_norm, [](List& x) { drop(x, find(x, Op::norm)); }, "no norm, which scales the updates"},
    {"no loss reduction", Defect::missing_reduce, [](List& x) { drop(x, find(x, Op::reduce_loss)); }, "no reduce_loss"},
};

// Cases where linking the waits again would mend or hide the damage.
const std::vector<Spoiling> kAsTheyAre = {
    {"block out of range", Defect::out_of_range, [](List& x) { x[find(x, Op::update)].last = 4; }, "of 3"},
    {"empty range", Defect::out_of_range, [](List& x) { x[find(x, Op::reduce)].last = 0; }},
    {"micro-batch out of range", Defect::out_of_range, [](List& x) { x[find(x, Op::load)].micro = 4; }, "micro-batch 4 of 4"},
    {"slot out of range", Defect::out_of_range, [](List& x) { x[find(x, Op::combine)].slot = 2; }, "slot 2 of 2"},
    {"forward of two blocks", Defect::out_of_range, [](List& x) { x[find(x, Op::forward)].last = 2; }, "one block"},
    {"waits for itself", Defect::bad_wait, [](List& x) { x[3].waits = {3}; }, "instruction 3"},
    {"waits for a later one", Defect::bad_wait, [](List& x) { x[3].waits = {9}; }, "does not come before"},
    {"an unknown wait", Defect::bad_wait, [](List& x) { x[3].waits = {1000}; }, "the list has"},
    {"negative wait", Defect::bad_wait, [](List& x) { x[3].waits = {-1}; }},
    {"too much freed", Defect::bad_bytes, [](List& x) { x[find(x, Op::backward, 5)].frees += 1; },
     "it frees 188 bytes of the activations of micro-batch 1, but only 187 are live"},
    {"too early", Defect::bad_bytes,
     [](List& x) { x[find(x, Op::load)].frees = std::exchange(x[find(x, Op::backward, 2)].frees, 0); },
     "(load of micro-batch 0): it frees 187 bytes"},
    {"of another micro-batch", Defect::bad_bytes,
     [](List& x) { x[find(x, Op::backward, 6)].frees += std::exchange(x[find(x, Op::backward, 5)].frees, 0); },
     "of the activations of micro-batch 2, but only"},
    {"never freed", Defect::bad_bytes, [](List& x) { x[find(x, Op::backward, 8)].frees -= 7; },
     "(backward of block 0 'layer0' on micro-batch 2): 7 bytes of the activations of micro-batch 2 are still live after it"},
    {"partial sums never freed", Defect::bad_bytes, [](List& x) { x[find(x, Op::combine, 1)].frees = 0; }, "of partial sums"},
    {"negative bytes", Defect::bad_bytes, [](List& x) { x[find(x, Op::loss)].allocates = -1; }, "it allocates -1 bytes"},
    {"bytes of no micro-batch", Defect::bad_bytes, [](List& x) { x[find(x, Op::norm)].allocates = 5; },
     "5 bytes of data outside micro-batches are still live"},
    {"reduce that does not wait", Defect::early_reduce, [](List& x) { x[find(x, Op::reduce)].waits.clear(); }},
    {"norm that does not wait", Defect::early_norm, [](List& x) { stop_waiting(x, find(x, Op::norm), find(x, Op::reduce, 1)); },
     "'layer1'"},
    {"norm before the count", Defect::early_norm, [](List& x) { stop_waiting(x, find(x, Op::norm), find(x, Op::reduce_loss)); },
     "reduce_loss"},
};

TEST(Verify, every_defect_is_found) {
  expect_all_found(good_program(), kOutOfOrder);
  expect_all_found(good_program(), kAsTheyAre, Waits::as_spoiled);
}

TEST(Verify, good_programs_pass) {
  verify(good_program());
  for (const StepLayout& layout : {StepLayout{}, StepLayout{.dp = 3}, StepLayout{.micro_batches = 4, .slots = 4},
                                   StepLayout{.dp = 2, .micro_batches = 3, .clip = true}}) {
    verify(build_program(toy_model(3), layout));
    verify(build_program(toy_model(1), layout));
  }
}

TEST(Verify, a_missing_wait_is_found_though_the_list_is_in_order) {
  Program program = build_program(toy_model(2), {.dp = 2, .bucket_bytes = 1});
  InstructionList& list = program.lists[0];
  for (Op producer : {Op::reduce, Op::reduce_loss}) {
    Program spoiled = program;
    stop_waiting(spoiled.lists[0], find(list, Op::update), find(list, producer));
    expect_defect(spoiled, Defect::early_update);
  }
}

TEST(Verify, one_replica_with_slots_still_waits_for_them) {
  Program program = build_program(toy_model(1), {.micro_batches = 2, .slots = 2});
  const auto spoil = [](List& x) { move(x, find(x, Op::update), find(x, Op::combine, 1)); };
  expect_found(program, {"update before the last combine", Defect::early_update, spoil}, Waits::linked_again);
}

TEST(Verify, ranks_must_issue_the_same_collectives) {
  // Each list is valid alone: rank 1 reduces the last block after the others.
  Program swapped = good_program();
  move(swapped.lists[1], find(swapped.lists[1], Op::reduce, 0), find(swapped.lists[1], Op::reduce, 2));
  swapped.lists[1] = link_waits(swapped.lists[1], swapped, swapped.buffers[1]);
  // Rank 1 has one bucket over all blocks.
  Program other_buckets = build_program(toy_model(3), {.dp = 2, .bucket_bytes = 1});
  other_buckets.lists.push_back(build_program(toy_model(3), {.dp = 2}).lists[0]);
  other_buckets.buffers.push_back(other_buckets.buffers[0]);
  other_buckets.list_of_rank = {0, 1};
  for (const Program& program : {swapped, other_buckets}) {
    expect_defect(program, Defect::order_mismatch, "rank 0 issues reduce of block 2 'layer2'", 1);
    expect_defect(program, Defect::order_mismatch, "rank 1 issues reduce of block", 1);
  }
}

TEST(Verify, one_rank_with_a_collective_less) {
  Program program = good_program();
  program.replicas = 1;  // so that a list without the reduce is valid alone
  drop(program.lists[1], find(program.lists[1], Op::reduce, 2));
  program.lists[1] = link_waits(program.lists[1], program, program.buffers[1]);
  expect_defect(program, Defect::order_mismatch, "rank 1 issues no more", 1);
}

TEST(Verify, malformed_programs) {
  const std::function<void(Program&)> cases[] = {
      [](Program& x) { x.list_of_rank[1] = 2; },
      [](Program& x) { x.list_of_rank[1] = -1; },
      [](Program& x) { x.list_of_rank.clear(); },
      [](Program& x) { x.block_names.clear(); },
      [](Program& x) { x.block_numel.pop_back(); },
      [](Program& x) { x.slots = 3; },
      [](Program& x) { x.micro_batches = 0; },
      [](Program& x) { x.replicas = 0; },
      [](Program& x) { x.block_uses.pop_back(); },
      [](Program& x) { x.buffers.pop_back(); },
      [](Program& x) { x.mesh.dp = 3; },
      [](Program& x) {
        x.holders = {{0}, {0}};
      },
      [](Program& x) {
        x.buffers[1].weight = {0, 1};
      },
      [](Program& x) {
        x.buffers[0].gradient = {0, 1, 0, 1};
      },
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    Program program = good_program();
    cases[i](program);
    try {
      verify(program);
      ADD_FAILURE() << i;
    } catch (const VerifyError& error) {
      EXPECT_EQ(name(error.defect), name(Defect::out_of_range)) << i << " " << error.what();
    }
  }
}

TEST(Verify, a_list_that_no_rank_runs_does_not_matter) {
  Program program = good_program();
  program.lists[1].clear();
  program.list_of_rank = {0, 0};
  verify(program);
}

TEST(Verify, the_rank_named_is_the_first_that_runs_the_list) {
  Program program = good_program();
  program.list_of_rank = {0, 0, 0, 1, 1};
  program.mesh.dp = 5;
  drop(program.lists[1], find(program.lists[1], Op::load));
  program.lists[1] = link_waits(program.lists[1], program, program.buffers[1]);
  expect_defect(program, Defect::use_before_load, "rank 3", 3);
}

}  // namespace
}  // namespace weft
