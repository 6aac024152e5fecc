// Timed instructions, and rows of them that do not overlap.
#include "weft/program/timed.h"

#include <gtest/gtest.h>

#include "tests/program/pipelines.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/simulate/simulation.h"

namespace weft {
namespace {

TEST(Timed, instructions_of_the_ranks_that_were_simulated) {
  const Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}), {}, {.dp = 3});
  const std::vector<TimedInstruction> timed = timed_instructions(program, simulate(program, slow_device()));
  ASSERT_EQ(timed.size(), program.of(0).size() + program.of(3).size());
  EXPECT_EQ(timed.front().rank, 0);
  EXPECT_EQ(timed.back().rank, 3);
  EXPECT_EQ(end_of(timed), 9.0);
}

TEST(Timed, moves_of_bytes_are_timed_from_their_begin) {
  const Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 1}), {.message_bytes = 1});
  const std::vector<TimedInstruction> timed = timed_instructions(program, simulate(program, slow_device({.latency_s = 0.5})));
  const size_t receive = program.of(0).size() + static_cast<size_t>(find(program.of(1), Op::receive));
  EXPECT_EQ(timed[receive].start_s, 1.0) << "posted at 0";
  EXPECT_EQ(timed[receive].end_s, 1.5);
}

TEST(Stack, rows_hold_intervals_that_do_not_overlap) {
  EXPECT_EQ(stack({{0, 2}, {1, 3}, {2, 4}, {2, 3}, {5, 6}}), (std::vector<int>{0, 1, 0, 2, 0}));
  EXPECT_EQ(stack({{5, 6}, {0, 9}}), (std::vector<int>{1, 0})) << "in the order of time";
  EXPECT_TRUE(stack({}).empty());
}

}  // namespace
}  // namespace weft
