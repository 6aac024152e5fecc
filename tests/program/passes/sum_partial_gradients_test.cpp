// Sequence parallelism's partial gradients: summed over tp once a step, after the data-parallel sums, before all that reads
// them.
#include "weft/program/passes/sum_partial_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program/toy.h"
#include "tests/program/verify/spoil.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"

namespace weft::sum_partial_gradients_test {
namespace {

ModelCost model(bool tied = false) {
  ModelCost model = tied ? tied_model(3, 64 * 24) : toy_model(3, 64 * 24);
  model.blocks[1].partial_numel = 96;
  return model;
}

StepLayout layout(ShardLevel level = ShardLevel::none, int micro_batches = 2) {
  const int ranks = level == ShardLevel::none ? 1 : 2;
  return {
      .tp = 2, .shard = ranks, .shard_level = level, .micro_batches = micro_batches, .clip = true, .partial_gradients = true};
}

std::string end_of_step(const Program& program) {
  const InstructionList& list = program.of(0);
  int last = -1;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) last = is_backward(list[i].op) ? i : last;
  return text({list.begin() + last + 1, list.end()});
}

TEST(SumPartialGradients, once_a_step_after_the_sums_over_data_parallel_ranks) {
  EXPECT_EQ(end_of_step(build_program(model(), layout())), "reduce0-2@tp norm0-2@tp update0-2");
  EXPECT_EQ(end_of_step(build_program(model(), layout(ShardLevel::gradients))),
            "reduce_scatter0.1 reduce0-2@tp norm0-2@shard+tp update2-2 update1-1 update0-0 gather2 gather1 gather0");
  StepLayout alone = layout();
  alone.tp = 1;
  EXPECT_EQ(end_of_step(build_program(model(), alone)), "norm0-2 update0-2");
}

TEST(SumPartialGradients, before_tied_weights_are_summed) {
  StepLayout stages = layout();
  stages.pp = 2;
  stages.schedule = naive_schedule({.ranks = 2, .micro_batches = 2});
  const Program program = build_program(model(true), stages);
  verify(program);
  for (const InstructionList& list : program.lists) {
    const auto partial = std::find_if(list.begin(), list.end(), sums_partial);
    ASSERT_NE(partial, list.end()) << text(list);
    EXPECT_EQ(text(partial[1]), "reduce0-0@tied") << text(list);
  }
}

TEST(SumPartialGradients, costs_match_the_header) {
  for (const int micro_batches : {1, 4}) {
    const Program program = build_program(model(), layout(ShardLevel::none, micro_batches));
    const Instruction& sum = program.of(0)[find(program.of(0), "reduce0-2@tp")];
    EXPECT_EQ(sum.wire_bytes, all_reduce_bytes(96 * 4, 2));
    EXPECT_EQ(sum.peak, 96 * 4);
  }
  const Program sharded = build_program(model(), layout(ShardLevel::parameters));
  EXPECT_EQ(sharded.of(0)[find(sharded.of(0), "reduce0-2@tp")].wire_bytes, all_reduce_bytes(96 * 4 / 2, 2));
}

TEST(SumPartialGradients, every_defect_is_found) {
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::gradients}) {
    const Program good = build_program(model(), layout(level));
    verify(good);
    expect_all_found(good, {
                               {"left out", Defect::early_norm, [](List& x) { drop(x, find(x, "reduce0-2@tp")); }, "over tp"},
                               {"twice", Defect::double_reduce, [](List& x) { repeat(x, find(x, "reduce0-2@tp")); }, "reduced"},
                               {"of some blocks", Defect::early_norm, [](List& x) { ++x[find(x, "reduce0-2@tp")].first; },
                                "'layer0' over tp"},
                               {"before a backward", Defect::early_reduce,
                                [](List& x) { move(x, find(x, "reduce0-2@tp"), find(x, Op::backward, 5)); }, "'layer"},
                               {"after the norm", Defect::early_norm,
                                [](List& x) { move(x, find(x, "reduce0-2@tp"), find(x, Op::norm)); }, "over tp"},
                           });
    expect_all_found(good,
                     {{"not waited for", Defect::early_norm,
                       [](List& x) { stop_waiting(x, find(x, Op::norm), find(x, "reduce0-2@tp")); }, "over tp"}},
                     Waits::as_spoiled);
  }
  Program other = build_program(model(), layout());
  other.partial_gradients = false;
  expect_defect(other, Defect::wrong_axis, "over axis 'tp'");
}

}  // namespace
}  // namespace weft::sum_partial_gradients_test
