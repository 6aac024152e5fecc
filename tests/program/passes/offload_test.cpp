// Moves of offload, their order, and costs as stated in its header.
#include "weft/program/passes/offload.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/passes/recompute.h"
#include "weft/program/passes/shard_parameters.h"

namespace weft {
namespace {

InstructionList recomputed(const ModelCost& model, int every, int micro_batches = 1) {
  return recompute(one_stage(model, micro_batches), model, {.every = every});
}

TEST(Offload, inputs_of_recomputed_blocks) {
  struct Case {
    int every;
    const char* expected;
  };
  const Case cases[] = {
      // The first block's input is the micro-batch, which stays.
      {1,
       "load0 forward0.0 forward1.0 drop0.0 forward2.0 drop1.0 offload_input1.0 loss0 "
       "backward2.0 reload_input1.0 forward1.0 backward1.0 forward0.0 backward0.0"},
      {2, "load0 forward0.0 forward1.0 drop0.0 forward2.0 loss0 backward2.0 backward1.0 forward0.0 backward0.0"},
      {0, "load0 forward0.0 forward1.0 forward2.0 loss0 backward2.0 backward1.0 backward0.0"},
  };
  const ModelCost model = toy_model(3);
  for (const Case& c : cases) {
    const InstructionList list = recomputed(model, c.every);
    EXPECT_EQ(text(offload_activations(list, model, {.activations = true})), c.expected) << c.every;
    EXPECT_EQ(text(offload_activations(list, model, {.optimizer = true, .weights = true})), text(list)) << c.every;
  }
}

TEST(Offload, optimizer_state_and_shards_around_the_update) {
  const InstructionList list = {{.op = Op::norm, .first = 0, .last = 3},
                                {.op = Op::update, .first = 1, .last = 3},
                                {.op = Op::update, .first = 0, .last = 1}};
  EXPECT_EQ(text(offload_state(list, {.activations = true})), text(list));
  EXPECT_EQ(text(offload_state(list, {.optimizer = true})),
            "norm0-2 reload_optimizer1 update1-1 offload_optimizer1 reload_optimizer2 update2-2 offload_optimizer2 "
            "reload_optimizer0 update0-0 offload_optimizer0");
  EXPECT_EQ(text(offload_state({list[2]}, {.weights = true})), "reload_weights0 update0-0 offload_weights0");
  EXPECT_EQ(text(offload_state({list[2]}, {.optimizer = true, .weights = true})),
            "reload_weights0 reload_optimizer0 update0-0 offload_optimizer0 offload_weights0");
}

// By kind and direction: an input, two numbers of state and some more per element, float32 weights, of which frozen ones and
// what no update has changed do not leave.
TEST(Offload, copies_are_declared) {
  ModelCost model = toy_model(3);
  for (BlockCost& block : model.blocks) block.states = 3, block.part_state = 64, block.frozen_numel = 128;
  const Program program = build_program(model, {.shard = 2,
                                                .shard_level = ShardLevel::parameters,
                                                .recompute = {.every = 1},
                                                .offload = {.activations = true, .optimizer = true, .weights = true},
                                                .weight_bytes = 2,
                                                .micro_batches = 2});
  std::map<std::string, std::vector<int64_t>> copied;
  for (const Instruction& x : program.of(0)) {
    EXPECT_TRUE(x.lane == Lane::copy || x.copy_bytes == 0) << text(x);
    if (x.lane == Lane::copy && x.first == 0) copied[fmt::format("{} {}", name(x.op), name(x.what))].push_back(x.copy_bytes);
    if (x.what == Payload::input) copied[std::string(name(x.op)) + " input"].push_back(x.copy_bytes);
  }
  constexpr int64_t kNumel = 256 / 2, kFrozen = 128 / 2;  // of a rank
  const std::vector<int64_t> state = {4 * (3 * kNumel + 32)}, in(4, 4 * (kNumel + kFrozen));
  EXPECT_EQ(copied["reload optimizer state"], state);
  EXPECT_EQ(copied["offload optimizer state"], state);
  EXPECT_EQ(copied["reload weights"], in) << "for three gathers and the update";
  EXPECT_EQ(copied["offload weights"], (std::vector<int64_t>{0, 0, 0, 4 * kNumel}));
  EXPECT_EQ(copied["offload input"], copied["reload input"]);
  EXPECT_EQ(copied["reload input"], (std::vector<int64_t>{40, 40})) << "the output of block 0";
}

TEST(Offload, shards_around_every_gather) {
  const ModelCost model = toy_model(2);
  const Program program = toy_program(model, {.shard_level = ShardLevel::parameters, .shards = 2});
  const InstructionList list = shard_parameters(one_stage(model), program, {});
  EXPECT_EQ(
      text(offload_shards(list, {.weights = true})),
      "load0 reload_weights0 gather0 offload_weights0 forward0.0 release0 reload_weights1 gather1 offload_weights1 forward1.0 "
      "loss0 backward1.0 release1 reload_weights0 gather0 offload_weights0 backward0.0 release0");
  EXPECT_EQ(text(offload_shards(list, {.activations = true, .optimizer = true})), text(list));
}

TEST(Offload, moves_overlap_compute_and_send_nothing) {
  const ModelCost model = toy_model(4);
  const InstructionList before = recomputed(model, 1);
  const InstructionList list = offload_activations(before, model, {.activations = true});
  for (const Instruction& x : list) {
    const bool moves = x.op == Op::offload || x.op == Op::reload;
    EXPECT_EQ(x.lane, moves ? Lane::copy : Lane::compute) << text(x);
    EXPECT_EQ(x.what == Payload::input, moves) << text(x);
    EXPECT_FALSE(is_collective(x));
  }
  EXPECT_EQ(step_cost(list).wire_bytes(), 0);
  EXPECT_EQ(step_cost(list).flops(), step_cost(before).flops());
}

// Both ways once per micro-batch: an offloaded block's input is its predecessor's output.
TEST(Offload, frees_the_inputs_and_brings_all_back) {
  const ModelCost model = toy_model(6);
  const InstructionList list = offload_activations(recomputed(model, 1, 3), model, {.activations = true});
  int64_t out = 0, in = 0, live = 0, expected = 0;
  for (int b = 1; b < 5; ++b) expected += 3 * model.blocks[b - 1].output_bytes;
  for (const Instruction& x : list) {
    if (x.op == Op::offload) out += x.frees;
    if (x.op == Op::reload) in += x.allocates;
    live += x.allocates - x.frees;
    EXPECT_GE(live, 0) << text(x);
  }
  EXPECT_EQ(out, expected);
  EXPECT_EQ(in, expected);
  EXPECT_EQ(live, 0);
}

// The output of a block without recompute is freed with the next block's input, unless its own backward keeps it.
TEST(Offload, an_input_that_the_block_before_made_and_would_keep) {
  ModelCost model = toy_model(6);
  for (const bool keeps_output : {false, true}) {
    for (BlockCost& block : model.blocks) block.keeps_output = keeps_output;
    const InstructionList before = recomputed(model, 2, 3), list = offload_activations(before, model, {.activations = true});
    int64_t out = 0, in = 0, live = 0;
    for (const Instruction& x : list) {
      if (x.op == Op::offload) out += x.frees;
      if (x.op == Op::reload) in += x.allocates;
      live += x.allocates - x.frees;
      EXPECT_GE(live, 0) << text(x);
      EXPECT_GE(x.frees, 0) << text(x);
    }
    EXPECT_EQ(live, 0);
    EXPECT_EQ(in, out);
    EXPECT_EQ(out, keeps_output ? 0 : 3 * (model.blocks[1].output_bytes + model.blocks[3].output_bytes));
    const int64_t saved = step_cost(before).peak_activation_bytes - step_cost(list).peak_activation_bytes;
    EXPECT_EQ(saved > 0, !keeps_output) << saved;
  }
}

TEST(Offload, takes_less_memory_than_recompute_alone) {
  const ModelCost model = toy_model(20);
  const InstructionList list = recomputed(model, 1);
  EXPECT_LT(step_cost(offload_activations(list, model, {.activations = true})).peak_activation_bytes,
            step_cost(list).peak_activation_bytes);
}

}  // namespace
}  // namespace weft
