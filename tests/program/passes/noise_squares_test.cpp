// Squares for the noise scale: of the first micro-batch of each slot, before its gradients change.
#include "weft/program/passes/noise_squares.h"

#include <gtest/gtest.h>

#include "tests/program/pipeline/schedule_table.h"
#include "tests/program/toy.h"
#include "tests/program/verify/spoil.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/verify/verify.h"

namespace weft::noise_squares_test {
namespace {

TEST(NoiseSquares, are_taken_of_the_first_micro_batch) {
  const ModelCost model = toy_model(2);
  const Program program = toy_program(model, {.micro_batches = 2});
  EXPECT_EQ(text(add_noise_squares(one_stage(model, 2), program).take()),
            "load0 forward0.0 forward1.0 loss0 backward1.0 squares1.0 backward0.0 squares0.0 "
            "load1 forward0.1 forward1.1 loss1 backward1.1 backward0.1");
}

TEST(NoiseSquares, come_before_the_slot_is_closed_and_before_reductions) {
  EXPECT_EQ(text(build_program(toy_model(1), {.dp = 2, .micro_batches = 2, .slots = 2, .noise_scale = true}).of(0)),
            "load0 forward0.0 loss0 backward0.0 squares0.0 combine0-0s0 "
            "load1 forward0.1 loss1 backward0.1 squares0.1 reduce_loss combine0-0s1 reduce0-0 norm0-0 update0-0");
  const StepLayout sharded = {.shard = 2, .shard_level = ShardLevel::gradients, .micro_batches = 2, .noise_scale = true};
  EXPECT_EQ(text(build_program(toy_model(1), sharded).of(0)),
            "load0 forward0.0 loss0 backward0.0 squares0.0 reduce_scatter0.0 "
            "load1 forward0.1 loss1 reduce_loss backward0.1 reduce_scatter0.1 norm0-0@shard update0-0 gather0");
}

TEST(NoiseSquares, of_tied_weights_wait_for_both_backwards) {
  EXPECT_EQ(text(build_program(tied_model(2), {.micro_batches = 2, .noise_scale = true}).of(0)),
            "load0 forward0.0 forward1.0 loss0 backward1.0 squares1.0 backward0.0 squares0.0 "
            "load1 forward0.1 forward1.1 loss1 reduce_loss backward1.1 backward0.1 norm0-1 update0-1");
}

// The sum of one exact number travels with the losses, over tp too.
TEST(NoiseSquares, costs_match_the_header) {
  StepLayout layout = {.tp = 2, .dp = 2, .micro_batches = 2};
  const InstructionList without = build_program(toy_model(3), layout).of(0);
  layout.noise_scale = true;
  const InstructionList with = build_program(toy_model(3), layout).of(0);
  const auto sent = [](const InstructionList& list) { return list[find(list, Op::reduce_loss)].wire_bytes; };
  EXPECT_EQ(sent(without), 24 * 4);                      // 2 (n - 1) / n over two ranks
  EXPECT_EQ(sent(with), (24 * 4 + 21 * 8) * 2 * 3 / 4);  // and over four
  EXPECT_EQ(step_cost(with).peak_activation_bytes, step_cost(without).peak_activation_bytes);
  EXPECT_EQ(count(with, Op::squares), 3);
}

TEST(NoiseSquares, verify_in_every_schedule) {
  for (const NamedSchedule& schedule : schedule_table()) {
    for (const ShardLevel level : {ShardLevel::none, ShardLevel::gradients, ShardLevel::parameters}) {
      for (const int slots : {1, 4}) {
        const ModelCost model = splittable(toy_model(2 * schedule.chunks));
        StepLayout layout = {.shard = 2, .shard_level = level, .keep_order = slots > 1, .slots = slots, .noise_scale = true};
        layout = pipelined(layout, schedule, 2, 8);
        const Program program = build_program(model, layout);
        EXPECT_NO_THROW(verify(program)) << schedule.name << " " << name(level);
        int squares = 0;
        for (const InstructionList& list : program.lists) squares += count(list, Op::squares);
        EXPECT_EQ(squares, slots * static_cast<int>(model.blocks.size())) << schedule.name;
      }
    }
  }
}

TEST(NoiseSquares, are_refused_where_stages_share_weights) {
  StepLayout layout = {.noise_scale = true};
  layout = pipelined(layout, schedule_named("1f1b"), 2, 4);
  try {
    build_program(tied_model(2), layout);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "layout: block 'layer0' shares its weights with another stage, so no rank has the gradients of one "
                 "micro-batch; leave out run.noise_scale, or keep such blocks on one stage "
                 "(model.tied_embeddings = false)");
  }
}

// Two blocks; four micro-batches in two slots; two replicas.
Program good_program() {
  return build_program(toy_model(2), {.dp = 2, .micro_batches = 4, .slots = 2, .bucket_bytes = 1, .noise_scale = true});
}

const std::vector<Spoiling> kOutOfOrder = {
    {"no squares", Defect::bad_squares, [](List& x) { drop(x, find(x, Op::squares)); },
     "block 1 'layer1': no squares of the first micro-batch of slot 0"},
    {"twice", Defect::bad_squares, [](List& x) { repeat(x, find(x, Op::squares)); }, "taken already"},
    {"too early", Defect::bad_squares, [](List& x) { move(x, find(x, Op::squares), find(x, Op::backward)); },
     "the backward for it has not been run yet"},
    {"with the next micro-batch", Defect::bad_squares, [](List& x) { move(x, find(x, "squares1.0"), find(x, "backward0.1")); },
     "(backward of block 1 'layer1' on micro-batch 1)"},
    {"of a closed slot", Defect::bad_squares, [](List& x) { move(x, find(x, "squares0.0"), find(x, "combine0-1s0")); },
     "may already have changed them"},
    {"of no slot's first", Defect::bad_squares, [](List& x) { x[find(x, "squares1.0")].micro = 1; }, "not the first"},
};

TEST(NoiseSquares, every_defect_is_found) {
  verify(good_program());
  expect_all_found(good_program(), kOutOfOrder);
  Program without = good_program();
  without.noise_scale = false;
  expect_defect(without, Defect::bad_squares, "measures no noise scale");
  // A reduce that waits only for the backward may overlap the squares.
  const Program beside = build_program(toy_model(1), {.dp = 2, .noise_scale = true});
  const auto early = [](List& x) { move(x, find(x, Op::reduce_loss), find(x, Op::squares)); };
  expect_found(beside, {"the sum before them", Defect::early_reduce, early, "squares of block 0 'layer0'"},
               Waits::linked_again);
  const auto spoil = [](List& x) { x[find(x, Op::reduce)].waits = {find(x, Op::backward)}; };
  expect_found(beside, {"overlapping reduce", Defect::bad_squares, spoil, "(reduce of block 0 'layer0')"}, Waits::as_spoiled);
}

}  // namespace
}  // namespace weft::noise_squares_test
