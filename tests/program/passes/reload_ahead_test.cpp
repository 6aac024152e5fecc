// Where reloads start, what is held meanwhile, and what it saves.
#include "weft/program/passes/reload_ahead.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/memory.h"
#include "weft/program/passes/offload.h"
#include "weft/program/passes/recompute.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

constexpr int kBlocks = 4;
constexpr OffloadOptions::Beside kAll{.activations = true, .optimizer = true, .weights = true};

InstructionList inputs_offloaded(int blocks) {
  const ModelCost model = toy_model(blocks);
  return offload_activations(recompute(one_stage(model, 1), model, {.every = 1}), model, {.activations = true});
}

TEST(ReloadAhead, each_reload_starts_with_the_one_before_it) {
  struct Case {
    const char* what;
    InstructionList list;
    const char* expected;
    OffloadOptions::Beside beside = kAll;
  };
  const InstructionList updates = {{.op = Op::norm, .first = 0, .last = 3}, {.op = Op::update, .first = 0, .last = 3}};
  const InstructionList twice = {{.op = Op::update, .first = 0, .last = 1}, {.op = Op::update, .first = 0, .last = 1}};
  const Case cases[] = {
      {"state, for the next update", offload_state(updates, {.optimizer = true}),
       "norm0-2 reload_optimizer0 reload_optimizer1 update0-0 offload_optimizer0 reload_optimizer2 update1-1 "
       "offload_optimizer1 update2-2 offload_optimizer2"},
      {"both kinds", offload_state(updates, {.optimizer = true, .weights = true}),
       "norm0-2 reload_weights0 reload_weights1 reload_optimizer0 reload_optimizer1 update0-0 offload_optimizer0 "
       "offload_weights0 reload_weights2 reload_optimizer2 update1-1 offload_optimizer1 offload_weights1 update2-2 "
       "offload_optimizer2 offload_weights2"},
      {"not before its own offload", offload_state(twice, {.optimizer = true}),
       "reload_optimizer0 update0-0 offload_optimizer0 reload_optimizer0 update0-0 offload_optimizer0"},
      {"inputs, for the next recompute", inputs_offloaded(4),
       "load0 forward0.0 forward1.0 drop0.0 forward2.0 drop1.0 offload_input1.0 forward3.0 drop2.0 offload_input2.0 loss0 "
       "backward3.0 reload_input2.0 reload_input1.0 forward2.0 backward2.0 forward1.0 backward1.0 forward0.0 backward0.0"},
      {"nothing", one_stage(toy_model(2)), "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0"},
      {"one kind, the other on disk",
       offload_state(updates, {.optimizer = true, .weights = true}),
       "norm0-2 reload_weights0 reload_optimizer0 reload_optimizer1 update0-0 offload_optimizer0 offload_weights0 "
       "reload_weights1 reload_optimizer2 update1-1 offload_optimizer1 offload_weights1 reload_weights2 update2-2 "
       "offload_optimizer2 offload_weights2",
       {.optimizer = true}},
  };
  for (const Case& c : cases) EXPECT_EQ(text(reload_ahead(c.list, {.beside = c.beside})), c.expected) << c.what;
}

TEST(ReloadAhead, an_input_is_held_until_the_next_one_moves) {
  const ModelCost model = toy_model(kBlocks);
  const InstructionList list = reload_ahead(inputs_offloaded(kBlocks), {.beside = kAll});
  int64_t live = 0, leaving = 0, most = 0;
  for (const Instruction& x : list) {
    if (x.what == Payload::input) live -= std::exchange(leaving, 0);
    most = std::max(most, live + peak_bytes(x));
    live += x.allocates - x.frees;
    if (x.op == Op::offload) live += leaving = x.frees;
  }
  EXPECT_EQ(step_cost(list, {.beside = kAll}).peak_activation_bytes, most);
  EXPECT_GE(most, step_cost(list).peak_activation_bytes);
}

/// Sizes differ, so that which two blocks are there together shows.
Program offloaded(OffloadOptions::Beside beside) {
  ModelCost model = toy_model(kBlocks);
  const int64_t numels[kBlocks] = {64, 640, 1280, 128};
  for (int b = 0; b < kBlocks; ++b) model.blocks[b].numel = numels[b];
  return build_program(model, {.shard_level = ShardLevel::parameters,
                               .recompute = {.every = 1},
                               .offload = {.activations = true, .optimizer = true, .weights = true, .beside = beside}});
}

TEST(ReloadAhead, holds_two_blocks_of_each_kind_that_is_copied_beside) {
  for (const bool optimizer : {false, true}) {
    for (const bool weights : {false, true}) {
      const Program program = offloaded({.optimizer = optimizer, .weights = weights});
      verify(program);
      const MemoryEstimate memory = estimate_memory(program, 0, {.offload_optimizer = true, .offload_weights = true});
      EXPECT_EQ(memory.of(MemoryCategory::optimizer), (optimizer ? 640 + 1280 : 1280) * 8);
      EXPECT_EQ(memory.of(MemoryCategory::weights), (weights ? 640 + 1280 : 1280) * 4);
    }
  }
}

/// Copies that take as long as the work between them hide behind it.
TEST(ReloadAhead, hides_copies_behind_compute) {
  const Program after = offloaded({}), beside = offloaded(kAll);
  verify(after);
  verify(beside);
  const Hardware hardware{.flops = 1e3, .memory_bytes_per_s = 1e3, .offload = {.bytes_per_s = 4e3}};
  const Simulation slow = simulate(after, hardware), fast = simulate(beside, hardware);
  EXPECT_DOUBLE_EQ(slow.of(0).busy_s, fast.of(0).busy_s);
  EXPECT_LT(fast.of(0).exposed_s, 0.6 * slow.of(0).exposed_s);
}

}  // namespace
}  // namespace weft
