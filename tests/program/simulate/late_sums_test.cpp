// Lists that sum gradients after the last backward: nothing else moves, and spans find their way back.
#include "weft/program/simulate/late_sums.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program/pipelines.h"
#include "weft/program/build/build.h"
#include "weft/program/simulate/simulate.h"

namespace weft::late_sums_test {
namespace {

std::vector<std::string> texts(const InstructionList& list) {
  std::vector<std::string> all;
  for (const Instruction& x : list) all.push_back(text(x));
  return all;
}

Program program_of(ShardLevel level) {
  StepLayout layout{.shard_level = level};
  return pipeline_program(one_f_one_b_schedule({.ranks = 2, .micro_batches = 2}),
                          {.blocks = 2, .numel = 64, .message_bytes = 8},
                          {.dp = level == ShardLevel::none ? 2 : 1, .shard = level == ShardLevel::none ? 1 : 2}, layout);
}

bool is_sum(const Instruction& x) { return x.op == Op::reduce || x.op == Op::reduce_scatter; }

TEST(LateSums, FollowTheLastPassAndMessage) {
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::optimizer}) {
    const Program program = program_of(level);
    const LateSums late(program);
    for (size_t l = 0; l < program.lists.size(); ++l) {
      const InstructionList& before = program.lists[l];
      const InstructionList& after = late.program().lists[l];
      const auto last = std::find_if(after.rbegin(), after.rend(),
                                     [](const Instruction& x) { return is_backward(x.op) || is_transfer(x.op); });
      EXPECT_TRUE(std::none_of(last, after.rend(), is_sum)) << l;
      EXPECT_TRUE(std::any_of(after.rbegin(), last, is_sum)) << l;
      InstructionList rest = before, same = after;
      std::erase_if(rest, is_sum);
      std::erase_if(same, is_sum);
      EXPECT_EQ(texts(rest), texts(same));
      for (size_t i = 0; i < after.size(); ++i) {
        for (const int wait : after[i].waits) EXPECT_LT(wait, static_cast<int>(i));
        std::vector<std::string> of, original;
        for (const int wait : after[i].waits) of.push_back(text(after[wait]));
        const auto same_text = [&](const Instruction& x) { return text(x) == text(after[i]); };
        for (const int wait : std::find_if(before.begin(), before.end(), same_text)->waits)
          original.push_back(text(before[wait]));
        EXPECT_TRUE(std::is_permutation(of.begin(), of.end(), original.begin(), original.end())) << text(after[i]);
      }
    }
  }
}

TEST(LateSums, ShardedGradientsStay) {
  const Program program = program_of(ShardLevel::gradients);
  EXPECT_EQ(texts(LateSums(program).program().lists[0]), texts(program.lists[0]));
}

TEST(LateSums, ASimulationHasTheOriginalsOrder) {
  const Program program = program_of(ShardLevel::none);
  Hardware hardware = slow_device({.bytes_per_s = 8});
  hardware.kind = "cuda";
  hardware.operators.emplace();
  hardware.software = SoftwareCosts{.overlapped_gradients = false};
  const Simulation s = simulate(program, hardware);
  for (const SimulatedRank& rank : s.ranks) {
    const InstructionList& list = program.of(rank.rank);
    double last_s = 0.0;
    for (size_t i = 0; i < list.size(); ++i) {
      if (is_backward(list[i].op) || list[i].op == Op::send) last_s = std::max(last_s, rank.spans[i].end_s);
    }
    for (size_t i = 0; i < list.size(); ++i) {
      if (!is_sum(list[i])) continue;
      EXPECT_GE(rank.spans[i].begin_s, last_s) << text(list[i]);
    }
  }
}

}  // namespace
}  // namespace weft::late_sums_test
