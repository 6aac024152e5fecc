// Gradients that an update needs whole are gathered right before it, and no others.
#include "weft/program/passes/gather_gradients.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "tests/program/verify/spoil.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/passes/offload.h"

namespace weft::gather_gradients_test {
namespace {

/// Three blocks; the first needs nothing whole.
ModelCost model(int bytes = 2) {
  ModelCost model = toy_model(3, 64 * 24);
  model.blocks[1].gathered_gradient_bytes = model.blocks[2].gathered_gradient_bytes = bytes;
  return model;
}

Program built(int shards, ShardLevel level, const OffloadOptions& offload = {}) {
  return build_program(model(), {.shard = shards, .shard_level = level, .offload = offload, .clip = true});
}

std::string end_of_step(const Program& program) {
  const InstructionList& list = program.of(0);
  return text({list.begin() + find(list, Op::norm), list.end()});
}

TEST(GatherGradients, right_before_the_update_that_needs_them) {
  EXPECT_EQ(end_of_step(built(2, ShardLevel::parameters)),
            "norm0-2@shard gather_gradients2-2@shard update2-2 gather_gradients1-1@shard update1-1 update0-0");
  EXPECT_EQ(end_of_step(built(2, ShardLevel::optimizer)),
            "norm0-2@shard gather_gradients2-2@shard update2-2 gather_gradients1-1@shard update1-1 update0-0 gather2 gather1 "
            "gather0");
}

TEST(GatherGradients, where_a_rank_owns_all_there_is_nothing_to_gather) {
  for (const Program& program : {built(4, ShardLevel::none), built(1, ShardLevel::gradients)}) {
    EXPECT_EQ(find(program.of(0), Op::gather_gradients), -1);
  }
}

TEST(GatherGradients, after_the_state_that_they_are_made_of_is_back) {
  EXPECT_EQ(end_of_step(built(2, ShardLevel::gradients, {.optimizer = true})),
            "norm0-2@shard reload_optimizer2 gather_gradients2-2@shard update2-2 offload_optimizer2 "
            "reload_optimizer1 gather_gradients1-1@shard update1-1 offload_optimizer1 "
            "reload_optimizer0 update0-0 offload_optimizer0 gather2 gather1 gather0");
}

TEST(GatherGradients, costs_match_the_header) {
  for (const int shards : {2, 3, 8}) {
    for (const int bytes : {2, 4}) {
      Program program = toy_program(model(bytes), {.shards = shards});
      program.gathered_gradient_bytes = {0, bytes, bytes};
      const InstructionList list = gather_gradients({{.op = Op::update, .first = 0, .last = 3}}, program);
      EXPECT_EQ(step_cost(list).gradient_wire_bytes, 2 * 64 * 24 * bytes * (shards - 1) / shards);
      EXPECT_EQ(step_cost(list).wire_bytes(), step_cost(list).gradient_wire_bytes);
    }
  }
}

TEST(GatherGradients, every_defect_is_found) {
  const Program good = built(2, ShardLevel::gradients, {.optimizer = true});
  verify(good);
  expect_all_found(
      good,
      {
          {"not gathered", Defect::bad_gather, [](List& x) { drop(x, find(x, Op::gather_gradients)); },
           "'layer2': updated by instruction"},
          {"gathered twice", Defect::bad_gather, [](List& x) { repeat(x, find(x, Op::gather_gradients)); }, "gathered already"},
          {"of a block without need", Defect::bad_gather,
           [](List& x) {
             Instruction& gather = x[find(x, Op::gather_gradients, 1)];
             x.insert(x.begin() + find(x, "update0-0"), gather);
             x[find(x, "update0-0") - 1].first = 0;
             x[find(x, "update0-0") - 1].last = 1;
           },
           "no update needs whole gradients"},
          {"over other ranks", Defect::wrong_axis, [](List& x) { x[find(x, Op::gather_gradients)].axes = kReplicaAxis; },
           "must be over 'shard'"},
          {"before the norm", Defect::early_update,
           [](List& x) {
             move(x, find(x, "reload_optimizer2"), find(x, Op::norm));
             move(x, find(x, Op::gather_gradients), find(x, Op::norm));
           },
           "the norm"},
          {"after the update", Defect::early_update,
           [](List& x) { move(x, find(x, Op::gather_gradients), find(x, "offload_optimizer2")); },
           "the gather of the gradients"},
          {"while the state is offloaded", Defect::bad_move,
           [](List& x) { move(x, find(x, Op::gather_gradients), find(x, "reload_optimizer2")); }, "is not in memory yet"},
      });
  expect_all_found(
      good,
      {
          {"update that does not wait", Defect::early_update,
           [](List& x) { stop_waiting(x, find(x, "update2-2"), find(x, Op::gather_gradients)); },
           "the gather of the gradients"},
          {"of two blocks", Defect::out_of_range, [](List& x) { --x[find(x, Op::gather_gradients)].first; }, "one block"},
      },
      Waits::as_spoiled);
}

TEST(GatherGradients, bytes_that_cannot_be_are_refused) {
  Program program = built(2, ShardLevel::gradients);
  program.gathered_gradient_bytes.pop_back();
  EXPECT_THROW(verify(program), VerifyError);
  program = built(2, ShardLevel::gradients);
  program.gathered_gradient_bytes[1] = -1;
  EXPECT_THROW(verify(program), VerifyError);
}

}  // namespace
}  // namespace weft::gather_gradients_test
