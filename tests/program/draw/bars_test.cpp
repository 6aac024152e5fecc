// Elements of drawings of timed instructions: bars, and the marks of an axis.
#include "weft/program/draw/bars.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/program/pipelines.h"
#include "weft/program/draw/time_scale.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/simulate/simulation.h"
#include "weft/program/timed.h"

namespace weft {
namespace {

std::string text(const Bar& bar) {
  return fmt::format("{}{} {}-{} [{}, {}]", name(bar.kind), bar.micro, bar.first, bar.last - 1, bar.start_s, bar.end_s);
}

std::vector<std::string> texts(const std::vector<Bar>& bars) {
  std::vector<std::string> result;
  for (const Bar& bar : bars) result.push_back(text(bar));
  return result;
}

TEST(Bars, blocks_of_a_task_are_one) {
  const Program program = pipeline_program(one_f_one_b_schedule({.ranks = 2, .micro_batches = 2}), {.blocks = 3});
  const std::vector<BarRow> rows = bar_rows(program, timed_instructions(program, simulate(program, slow_device())));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(texts(rows[0].compute), (std::vector<std::string>{"forward0 0-2 [0, 3]", "forward1 0-2 [3, 6]",
                                                              "backward0 0-2 [12, 18]", "backward1 0-2 [21, 27]"}));
  EXPECT_EQ(rows[1].rank, 1);
  EXPECT_EQ(rows[1].pp, 1);
  EXPECT_EQ(texts(rows[1].compute), (std::vector<std::string>{"forward0 3-5 [3, 6]", "backward0 3-5 [6, 12]",
                                                              "forward1 3-5 [12, 15]", "backward1 3-5 [15, 21]"}));
  EXPECT_TRUE(rows[0].side.empty()) << "transfers take no time here";
}

TEST(Bars, a_gap_is_seen) {
  const Program program = build_program(equal_blocks(3, {}), {});
  std::vector<TimedInstruction> timed;
  double start_s = 0.0;
  for (int block = 0; block < 3; ++block) {
    timed.push_back({.rank = 0, .index = find(program.of(0), Op::forward, block), .start_s = start_s, .end_s = start_s + 1.0});
    start_s += block == 0 ? 1.0 + 1e-5 : 1.1;  // the first gap is thinner than a line
  }
  EXPECT_EQ(texts(bar_rows(program, timed)[0].compute),
            (std::vector<std::string>{"forward0 0-1 [0, 2.00001]", "forward0 2-2 [2.10001, 3.10001]"}));
}

TEST(Bars, neighbours_are_joined) {
  const auto bar = [](BarKind kind, double start_s, double end_s) {
    return Bar{.kind = kind, .micro = 0, .start_s = start_s, .end_s = end_s};
  };
  const std::vector<Bar> joined =
      joined_bars({bar(BarKind::forward, 0.0, 0.25), bar(BarKind::backward, 0.25, 0.75), bar(BarKind::forward, 1.0, 1.25),
                   bar(BarKind::forward, 2.0, 4.0), bar(BarKind::forward, 4.0, 4.5)},
                  1.0);
  EXPECT_EQ(texts(joined), (std::vector<std::string>{"backward0 0--1 [0, 0.75]", "forward0 0--1 [1, 1.25]",
                                                     "forward0 0--1 [2, 4]", "forward0 0--1 [4, 4.5]"}));
  EXPECT_EQ(joined[0].joined, 2);
}

TEST(Bars, time_by_kind_is_a_mean_over_ranks) {
  BarRow row{.rank = 0, .alike = 3};
  row.compute = {{.kind = BarKind::forward, .start_s = 1.0, .end_s = 3.0}};
  BarRow other{.rank = 3};
  other.side = {{.kind = BarKind::reduce, .start_s = 1.0, .end_s = 2.0}};
  EXPECT_EQ(seconds_by_kind({row, other})[static_cast<size_t>(BarKind::forward)], 1.5);
  EXPECT_EQ(seconds_by_kind({row, other})[static_cast<size_t>(BarKind::reduce)], 0.25);
}

TEST(Bars, kinds_and_stages_are_distinct) {
  const Program split = pipeline_program(zb_h1_schedule({.ranks = 2, .micro_batches = 2}));
  const std::vector<BarRow> rows = bar_rows(split, timed_instructions(split, simulate(split, slow_device())));
  EXPECT_EQ(texts(rows[1].compute),
            (std::vector<std::string>{"forward0 1-1 [1, 2]", "backward, input0 1-1 [2, 3]", "forward1 1-1 [3, 4]",
                                      "backward, input1 1-1 [4, 5]", "backward, weights0 1-1 [5, 6]",
                                      "backward, weights1 1-1 [6, 7]"}));
  const Program chunks = pipeline_program(interleaved_schedule({.ranks = 2, .chunks = 3, .micro_batches = 2}));
  const BarRow first = bar_rows(chunks, timed_instructions(chunks, simulate(chunks, slow_device())))[0];
  EXPECT_EQ(first.num_chunks, 3);
  for (const Bar& bar : first.compute) EXPECT_EQ(bar.chunk, bar.first / 2) << text(bar);
}

// The last rank of a V holds two adjacent stages of the model.
TEST(Bars, stages_may_be_neighbours) {
  const Program program = pipeline_program(zb_v_schedule({.ranks = 2, .chunks = 2, .micro_batches = 6}), {.blocks = 2});
  const std::vector<BarRow> rows = bar_rows(program, timed_instructions(program, simulate(program, slow_device())));
  for (const BarRow& row : rows) {
    EXPECT_EQ(row.num_chunks, 2) << row.rank;
    for (const Bar& bar : row.compute) EXPECT_EQ(bar.last - bar.first, 2) << text(bar);
  }
}

TEST(Bars, stages_that_follow_at_once_are_two) {
  const Schedule schedule = {
      .name = "by hand",
      .micro_batches = 1,
      .rank_of_stage = {0, 1, 0},
      .tasks = {{{TaskKind::forward, 0, 0}, {TaskKind::forward, 2, 0}, {TaskKind::backward, 2, 0}, {TaskKind::backward, 0, 0}},
                {{TaskKind::forward, 1, 0}, {TaskKind::backward, 1, 0}}}};
  const Program program = pipeline_program(schedule);
  const BarRow row = bar_rows(program, timed_instructions(program, simulate(program, slow_device())))[0];
  EXPECT_EQ(row.num_chunks, 2);
}

TEST(Bars, recompute_and_moves_of_bytes) {
  const Program program = build_program(
      equal_blocks(2, {.numel = 64}),
      {.dp = 2, .shard = 2, .shard_level = ShardLevel::parameters, .recompute = {.every = 1}, .micro_batches = 1});
  const BarRow row = bar_rows(program, timed_instructions(program, simulate(program, slow_device({.latency_s = 0.01}))))[0];
  std::vector<std::string> kinds;
  for (const Bar& bar : row.compute) kinds.emplace_back(name(bar.kind));
  EXPECT_EQ(kinds, (std::vector<std::string>{"forward", "backward", "recompute", "backward"}));
  for (const Bar& bar : row.side) EXPECT_TRUE(bar.kind == BarKind::gather || bar.kind == BarKind::reduce) << text(bar);
  EXPECT_GT(row.side.size(), 4u);
}

TEST(TimeScale, marks_are_round_and_apart) {
  const TimeScale scale(0.0033, 1000.0);
  EXPECT_EQ(scale.unit(), "ms");
  std::string labels;
  double previous = -100.0;
  for (const TimeScale::Mark& mark : scale.marks(100.0)) {
    labels += mark.label + " ";
    EXPECT_GE(mark.position, previous + 100.0);
    previous = mark.position;
  }
  EXPECT_EQ(labels, "0 0.5 1 1.5 2 2.5 3 ");
  EXPECT_EQ(scale.at(0.00165), 500.0);
  EXPECT_EQ(TimeScale(0.3, 300.0).marks(100.0).back().label, "300");
  EXPECT_EQ(TimeScale(0.3, 300.0).unit(), "ms");
  EXPECT_EQ(TimeScale(42.0, 300.0).unit(), "s");
  EXPECT_EQ(TimeScale(0.0, 300.0).marks(100.0).size(), 1u) << "nothing took time";
}

}  // namespace
}  // namespace weft
