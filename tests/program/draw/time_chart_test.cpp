#include "weft/program/draw/time_chart.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/program/pipelines.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/simulate/simulation.h"

namespace weft {
namespace {

std::string chart(const Program& program, const TimeChartOptions& options = {}) {
  return time_chart(program, timed_instructions(program, simulate(program, slow_device())), options);
}

TEST(TimeChart, one_forward_one_backward) {
  EXPECT_EQ(chart(pipeline_program(one_f_one_b_schedule({.ranks = 4, .micro_batches = 4}), {.blocks = 2})),
            "pp 0 | F0 F1 F2 F3                   B0 --    B1 --    B2 --    B3 --\n"
            "pp 1 |    F0 F1 F2             B0 -- F3 B1 --    B2 --    B3 --\n"
            "pp 2 |       F0 F1       B0 -- F2 B1 -- F3 B2 --    B3 --\n"
            "pp 3 |          F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 --\n");
}

TEST(TimeChart, backward_in_two_parts) {
  EXPECT_EQ(chart(pipeline_program(zb_h1_schedule({.ranks = 3, .micro_batches = 4}))),
            "pp 0 | F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3\n"
            "pp 1 |    F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3\n"
            "pp 2 |       F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3\n");
}

TEST(TimeChart, stages_of_a_rank_have_letters) {
  EXPECT_EQ(chart(pipeline_program(interleaved_schedule({.ranks = 2, .chunks = 2, .micro_batches = 2}))),
            "pp 0 | F0a F1a F0b F1b         B0b ---     B1b --- B0a --- B1a ---\n"
            "pp 1 |     F0a F1a F0b B0b --- F1b B1b --- B0a --- B1a ---\n");
}

// Rank 1 holds stages 1 and 2, and runs forward from one into the other.
TEST(TimeChart, neighbouring_stages_of_a_rank_are_distinct) {
  const std::string text = chart(pipeline_program(zb_v_schedule({.ranks = 2, .chunks = 2, .micro_batches = 2})));
  EXPECT_NE(text.find("pp 1 |     F0a F0b F1a F1b "), std::string::npos) << text;
}

TEST(TimeChart, a_rank_that_hardly_works_says_so) {
  Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}));
  for (Instruction& x : program.lists[0]) x.flops /= 100.0;
  EXPECT_EQ(chart(program),
            "pp 0 | (too short to be seen)\n"
            "pp 1 | F0 F1 B0 -- B1 --\n");
}

// The first rank recomputes while it waits; later that is part of backward.
TEST(TimeChart, recompute_may_run_into_backward) {
  const Program program =
      pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}), {.blocks = 2}, {}, {.recompute = {.every = 1}});
  EXPECT_EQ(chart(program),
            "pp 0 | F0 F1 R0          B0 -- B1 -- --\n"
            "pp 1 |    F0 F1 B0 -- -- B1 --\n");
}

TEST(TimeChart, a_chart_that_fits_twice_is_in_two_halves) {
  EXPECT_EQ(chart(pipeline_program(one_f_one_b_schedule({.ranks = 2, .micro_batches = 4})), {.width = 34}),
            "pp 0 | F0 F1       B0 -- F2 B1\n"
            "pp 1 |    F0 B0 -- F1 B1 -- F2\n"
            "  ...\n"
            "pp 0 | -- F3 B2 --    B3 --\n"
            "pp 1 | B2 -- F3 B3 --\n");
}

TEST(TimeChart, long_ones_show_both_ends) {
  const Program program = pipeline_program(one_f_one_b_schedule({.ranks = 2, .micro_batches = 100}));
  EXPECT_EQ(chart(program, {.width = 38}),
            "pp 0 | F0  F1          B0  --- F2  B1\n"
            "pp 1 |     F0  B0  --- F1  B1  --- F2\n"
            "  ... 287 more slots ...\n"
            "pp 0 | B97 --- F99 B98 ---     B99 ---\n"
            "pp 1 | F98 B98 --- F99 B99 ---\n");
}

// Messages take ten thousand million times as long as a forward: only the visible part is computed.
TEST(TimeChart, takes_no_memory_for_hidden_parts) {
  const Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 1}));
  const Simulation s = simulate(program, slow_device({.latency_s = 1e10}));
  EXPECT_EQ(time_chart(program, timed_instructions(program, s), {.width = 40}),
            "pp 0 | F0\n"
            "pp 1 |\n"
            "  ... 19999999984 more slots ...\n"
            "pp 0 |                            B0 --\n"
            "pp 1 |\n");
}

TEST(TimeChart, tasks_far_shorter_than_the_step_are_left_out) {
  Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}));
  for (InstructionList& list : program.lists) {
    for (Instruction& x : list) x.flops /= 1e15;
  }
  program.lists[1][find(program.lists[1], Op::backward)].flops = 1e6;
  EXPECT_NE(chart(program).find("pp 0 | (too short to be seen)\n"), std::string::npos) << chart(program);
}

TEST(TimeChart, fits_the_width_and_the_rows) {
  const Program program = pipeline_program(one_f_one_b_schedule({.ranks = 40, .micro_batches = 80}));
  for (const int width : {40, 77, 100, 200}) {
    std::istringstream lines(chart(program, {.width = width, .max_rows = 10}));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
      EXPECT_TRUE(line.empty() || line.back() != ' ') << "'" << line << "'";
    }
    EXPECT_EQ(count, 2 * (10 + 1) + 1);
  }
}

TEST(TimeChart, the_legend_explains_only_what_appears) {
  const Program program = pipeline_program(zb_h1_schedule({.ranks = 2, .micro_batches = 2}), {}, {.dp = 3});
  const std::vector<TimedInstruction> timed = timed_instructions(program, simulate(program, slow_device()));
  EXPECT_EQ(chart_legend(timed, time_chart(program, timed)),
            "  F3   forward of micro-batch 3\n"
            "  I3   backward, first part: the gradient of the stage's input\n"
            "  W3   backward, second part: the gradients of its weights, which no rank waits for\n"
            "a row represents 3 identical ranks\n\n");
}

TEST(TimeChart, nothing_takes_time) {
  EXPECT_EQ(chart(build_program(equal_blocks(1, {.forward_flops = 0, .input_flops = 0, .weight_flops = 0}), {})), "");
}

}  // namespace
}  // namespace weft
