// Every defect of recompute and offload, put into a correct program by one change: verify must name it.
#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "tests/program/verify/spoil.h"
#include "weft/program/build/build.h"

namespace weft {
namespace {

// Two micro-batches, four ranks, everything recomputed.
StepLayout recomputed() {
  return {
      .dp = 2, .shard = 2, .shard_level = ShardLevel::parameters, .recompute = {.every = 1}, .micro_batches = 2, .clip = true};
}
StepLayout offloaded() {
  StepLayout layout = recomputed();
  layout.offload = {.activations = true, .optimizer = true, .weights = true};
  return layout;
}

Program program_of(const StepLayout& layout) { return build_program(toy_model(3), layout); }

TEST(VerifyRecompute, every_defect_is_found) {
  const std::vector<Spoiling> cases = {
      {"no second forward", Defect::missing_recompute, [](List& x) { drop(x, find(x, "forward1.0", 1)); }, "were dropped by"},
      {"second forward after the backward", Defect::missing_recompute,
       [](List& x) { move(x, find(x, "forward1.0", 1), find(x, "backward1.0")); }, "not been recomputed"},
      {"dropped twice", Defect::repeated, [](List& x) { repeat(x, find(x, "drop0.1")); }, "dropped already"},
      {"dropped before it is there", Defect::use_before_load,
       [](List& x) { move(x, find(x, "drop0.0"), find(x, "forward0.0")); }, "forward has not been run"},
      {"never dropped", Defect::repeated, [](List& x) { drop(x, find(x, "drop0.0")); }, "run already"},
      {"a third forward", Defect::repeated, [](List& x) { repeat(x, find(x, "forward1.0", 1)); }, "computed again already"},
      {"dropped after the second forward", Defect::repeated,
       [](List& x) { move(x, find(x, "drop0.0"), find(x, "forward0.0", 1)); }},
  };
  expect_all_found(program_of(recomputed()), cases);
  expect_all_found(program_of({.recompute = {.every = 1}, .micro_batches = 2}), cases);
}

TEST(VerifyMoves, every_defect_is_found) {
  expect_all_found(
      program_of(offloaded()),
      {
          {"reloaded twice", Defect::bad_move, [](List& x) { repeat(x, find(x, "reload_optimizer1")); }, "in memory already"},
          {"offloaded twice", Defect::bad_move, [](List& x) { repeat(x, find(x, "offload_weights1")); }, "offloaded already"},
          {"activation reloaded before it left", Defect::bad_move,
           [](List& x) { move(x, find(x, "reload_input1.0"), find(x, "offload_input1.0")); }, "it is in memory already"},
          {"optimizer state not reloaded", Defect::bad_move, [](List& x) { drop(x, find(x, "reload_optimizer1")); },
           "optimizer state of block 1 'layer1' is not in memory yet"},
          {"shard not reloaded for its gather", Defect::bad_move, [](List& x) { drop(x, find(x, "reload_weights1")); },
           "weights of block 1 'layer1' is not in memory yet"},
          {"input not reloaded for its recompute", Defect::bad_move, [](List& x) { drop(x, find(x, "reload_input1.0")); },
           "input of block 1 'layer1' is not in memory yet"},
          {"update before the reload", Defect::bad_move,
           [](List& x) { move(x, find(x, "reload_optimizer1"), find(x, "update1-1")); }, "is not in memory yet"},
          {"update after the offload", Defect::bad_move,
           [](List& x) { move(x, find(x, "update1-1"), find(x, "offload_optimizer1")); }, "is not in memory yet"},
          {"gather after the offload", Defect::bad_move,
           [](List& x) { move(x, find(x, "gather1"), find(x, "offload_weights1")); }, "is not in memory yet"},
          {"input offloaded before the drop", Defect::bad_move,
           [](List& x) { move(x, find(x, "offload_input1.0"), find(x, "drop1.0")); }, "is not in memory yet"},
          {"optimizer state not offloaded", Defect::bad_move, [](List& x) { drop(x, find(x, "offload_optimizer1")); },
           "without the reverse move"},
          {"shard not offloaded after the update", Defect::bad_move, [](List& x) { drop(x, find(x, "offload_weights1", 4)); },
           "without the reverse move"},
          {"shard not offloaded after a gather", Defect::bad_move, [](List& x) { drop(x, find(x, "offload_weights1")); },
           "it is in memory already"},
      });
  const auto blind = [](const char* who, const char* for_whom) {
    return [=](List& x) { stop_waiting(x, find(x, who), find(x, for_whom)); };
  };
  expect_all_found(
      program_of(offloaded()),
      {
          {"update during the reload", Defect::bad_move, blind("update1-1", "reload_optimizer1"), "is not in memory yet"},
          {"gather during the reload", Defect::bad_move, blind("gather1", "reload_weights1"), "is not in memory yet"},
          {"reload during the offload", Defect::bad_move,
           [](List& x) { stop_waiting(x, find(x, "reload_input1.0"), find(x, "offload_input1.0")); },
           "does not wait for instruction"},
          {"offload during the update", Defect::bad_move, blind("offload_optimizer1", "update1-1"),
           "does not wait for instruction"},
          {"offload during the gather", Defect::bad_move, blind("offload_weights1", "gather1"), "not have finished with it"},
          {"offload during the drop", Defect::bad_move, blind("offload_input1.0", "drop1.0"), "not have finished with it"},
      },
      Waits::as_spoiled);
}

TEST(VerifyMoves, ranges) {
  expect_all_found(
      program_of(offloaded()),
      {
          {"reduce_scatter of no micro-batch", Defect::out_of_range,
           [](List& x) { x[find(x, Op::reduce_scatter)].micro = -1; }},
          {"drop of no micro-batch", Defect::out_of_range, [](List& x) { x[find(x, Op::drop)].micro = 2; },
           "micro-batch 2 of 2"},
          {"offload of no micro-batch", Defect::out_of_range, [](List& x) { x[find(x, "offload_input1.0")].micro = 2; }},
          {"gather of two blocks", Defect::out_of_range, [](List& x) { x[find(x, "gather1")].last = 3; }, "one block"},
          {"release of no block", Defect::out_of_range, [](List& x) { x[find(x, "release1")].last = 1; }},
          {"reload of another block", Defect::out_of_range, [](List& x) { x[find(x, "reload_weights1")].first = 3; }, "of 3"},
      },
      Waits::as_spoiled);
}

}  // namespace
}  // namespace weft
