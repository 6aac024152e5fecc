// Simulated pipelines vs the papers' formulas and the times of task_times(); copies of columns.
#include <gtest/gtest.h>

#include "tests/program/pipelines.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/simulate/simulate.h"

namespace weft {
namespace {

struct Size {
  int ranks, micro_batches;
};

Schedule one_f_one_b(int ranks, int micro_batches) {
  return one_f_one_b_schedule({.ranks = ranks, .micro_batches = micro_batches});
}

// (p - 1) / (m + p - 1): Huang et al. 2019 (arXiv:1811.06965) for GPipe; 1F1B has the same bubble.
TEST(SimulatePipelines, equal_stages_have_the_bubble_of_the_formula) {
  for (const auto& [p, m] : {Size{2, 2}, {4, 8}, {4, 4}, {8, 32}}) {
    for (const Schedule& schedule : {gpipe_schedule({.ranks = p, .micro_batches = m}), one_f_one_b(p, m)}) {
      const Simulation s = simulate(pipeline_program(schedule), slow_device());
      EXPECT_EQ(s.step_s, 3.0 * (m + p - 1)) << schedule.name << " " << p << " " << m;
      EXPECT_DOUBLE_EQ(s.bubble_share(), (p - 1.0) / (m + p - 1.0)) << schedule.name;
      EXPECT_EQ(s.busiest_s(), 3.0 * m);
      EXPECT_EQ(s.flops, 3.0 * m * p);
    }
  }
}

// Interleaving v chunks per rank divides the bubble by v: Narayanan et al. 2021 (arXiv:2104.04473).
TEST(SimulatePipelines, interleaving_divides_the_bubble) {
  const int p = 4, v = 3, m = 8;
  const Schedule schedule = interleaved_schedule({.ranks = p, .chunks = v, .micro_batches = m});
  EXPECT_EQ(simulate(pipeline_program(schedule), slow_device()).step_s, 3.0 * (v * m + p - 1));
}

// From first work to last, 1F1B idles (p - 1) (F + I + W) and ZB-H1 (p - 1) (F + I - W): Qi et al. 2024 (arXiv:2401.10241).
TEST(SimulatePipelines, splitting_backward_shrinks_the_bubble) {
  const int p = 4, m = 12;
  const Simulation whole = simulate(pipeline_program(one_f_one_b(p, m)), slow_device());
  const Simulation split = simulate(pipeline_program(zb_h1_schedule({.ranks = p, .micro_batches = m})), slow_device());
  EXPECT_EQ(whole.span_s, 3.0 * (m + p - 1));
  EXPECT_EQ(split.span_s, 3.0 * m + p - 1);
  EXPECT_DOUBLE_EQ(split.span_bubble_share(), 1.0 - 3.0 * m / (3.0 * m + p - 1));
}

// A rank's idle time at the end, while it waits for the total loss, is not in its span: Qi et al. 2024 again.
TEST(SimulatePipelines, zero_bubbles_are_zero_where_all_parts_take_the_same) {
  for (const auto& [p, m] : {Size{2, 4}, {4, 8}, {4, 16}, {8, 24}}) {
    for (const Schedule& schedule :
         {zb_h2_schedule({.ranks = p, .micro_batches = m}), zb_v_schedule({.ranks = p, .chunks = 2, .micro_batches = m})}) {
      const Simulation s = simulate(pipeline_program(schedule), slow_device());
      const double work = 3.0 * schedule.num_stages() / p * m;
      EXPECT_EQ(s.span_bubble_share(), 0.0) << schedule.name << " " << p << " " << m;
      EXPECT_EQ(s.span_s, work) << schedule.name << " " << p << " " << m;
      EXPECT_GT(s.step_s, work) << "the last stage begins later";
    }
  }
}

// A program with slow messages follows its schedule, task by task, for any task times.
TEST(SimulatePipelines, programs_take_as_long_as_their_schedules) {
  for (const StageTimes& part : {StageTimes{2, 3, 1}, StageTimes{1, 1, 1}, StageTimes{2, 1, 4}}) {
    const StageCost cost = {.blocks = 2,
                            .forward_flops = part.forward,
                            .input_flops = part.backward_input,
                            .weight_flops = part.backward_weight,
                            .message_bytes = 8};
    for (const Schedule& schedule : all_schedules(4, 8)) {
      for (const double transfer : {0.0, 0.5}) {
        const std::vector<StageTimes> times(schedule.num_stages(),
                                            {2 * part.forward, 2 * part.backward_input, 2 * part.backward_weight});
        const TaskTimes expected = task_times(schedule, times, transfer);
        const Simulation s = simulate(pipeline_program(schedule, cost), slow_device({.latency_s = transfer}));
        const std::string what = fmt::format("{} F {} transfer {}", schedule.name, part.forward, transfer);
        EXPECT_EQ(s.busiest_s(), most_work(expected)) << what;
        EXPECT_EQ(s.span_s, longest_span(expected)) << what;
        EXPECT_DOUBLE_EQ(s.span_bubble_share(), bubble_share(expected)) << what;
        double last_work_s = 0.0;
        for (const SimulatedRank& rank : s.ranks) last_work_s = std::max(last_work_s, rank.last_work_s);
        EXPECT_EQ(last_work_s, makespan(expected)) << what;
      }
    }
  }
}

// An update is work of a step, not of a pipeline.
TEST(SimulatePipelines, spans_end_with_the_last_backward) {
  Hardware hardware = slow_device({.latency_s = 0.25});
  hardware.update_s_per_element = 1.0;
  const Simulation s = simulate(pipeline_program(one_f_one_b(2, 4), {.numel = 64}), hardware);
  EXPECT_EQ(s.of(0).first_work_s, 0.0);
  EXPECT_EQ(s.of(0).span_work_s, 12.0);
  EXPECT_EQ(s.of(0).busy_s, 12.0 + 64.0);
  EXPECT_GE(s.of(0).end_s, s.of(0).last_work_s + 64.0);
  EXPECT_EQ(s.span_s, s.of(0).last_work_s);
  EXPECT_EQ(s.span_bubble_share(), 1.0 - 12.0 / s.span_s);
}

TEST(SimulatePipelines, activations_peak_as_the_schedule_says) {
  const int p = 4, m = 8;
  const PipelineShape shape = {.ranks = p, .micro_batches = m};
  for (const Schedule& schedule : {naive_schedule(shape), gpipe_schedule(shape), one_f_one_b_schedule(shape),
                                   interleaved_schedule({.ranks = p, .chunks = 2, .micro_batches = m})}) {
    const int chunks = schedule.num_stages() / p;
    const Simulation s = simulate(pipeline_program(schedule, {.saved_bytes = 10}), slow_device());
    for (const SimulatedRank& rank : s.ranks) {
      EXPECT_EQ(static_cast<double>(rank.memory.of(MemoryCategory::activations)),
                10 * chunks * peak_activations(schedule, rank.pp))
          << schedule.name << " on " << rank.pp;
    }
  }
}

std::vector<double> ends(const SimulatedRank& rank) {
  std::vector<double> result;
  for (const Span& span : rank.spans) result.push_back(span.end_s);
  return result;
}

TEST(SimulatePipelines, copies_of_a_column_change_nothing) {
  const Hardware hardware = slow_device({.latency_s = 0.1, .bytes_per_s = 16});
  Program column = pipeline_program(one_f_one_b(4, 8), {.message_bytes = 4});
  for (InstructionList& list : column.lists) list.resize(find(list, Op::reduce_loss));  // it costs more with more ranks
  Program copies = column;
  copies.mesh = {.pp = 4, .dp = 8, .shard = 2, .tp = 2};
  copies.list_of_rank.clear();
  for (int rank = 0; rank < 128; ++rank) copies.list_of_rank.push_back(rank / 32);
  const Simulation one = simulate(column, hardware);
  const Simulation many = simulate(copies, hardware);
  ASSERT_EQ(many.ranks.size(), 4u);
  ASSERT_EQ(many.index_of_rank.size(), 128u);
  for (int pp = 0; pp < 4; ++pp) {
    EXPECT_EQ(many.ranks[pp].count, 32);
    EXPECT_EQ(ends(many.ranks[pp]), ends(one.ranks[pp]));
    EXPECT_EQ(&many.of(pp * 32 + 31), &many.ranks[pp]);
  }
  EXPECT_EQ(many.step_s, one.step_s);
  EXPECT_EQ(many.flops, 32 * one.flops);
}

// The same program with a list for every rank: nothing is shared, all ranks are simulated.
TEST(SimulatePipelines, distinct_columns_that_do_the_same_give_the_same_times) {
  const Hardware hardware = slow_device({.latency_s = 0.1, .bytes_per_s = 64});
  const StageCost cost = {.blocks = 2, .numel = 64, .message_bytes = 4};
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::optimizer, ShardLevel::parameters}) {
    const Program shared =
        pipeline_program(one_f_one_b(2, 4), cost, {.dp = 2, .shard = 2, .tp = 2}, {.shard_level = level, .clip = true});
    Program apart = shared;
    apart.lists.clear();
    apart.buffers.clear();
    for (int rank = 0; rank < shared.world_size(); ++rank) {
      apart.lists.push_back(shared.of(rank));
      apart.buffers.push_back(shared.buffers_of(rank));
      apart.list_of_rank[rank] = rank;
    }
    const Simulation few = simulate(shared, hardware);
    const Simulation all = simulate(apart, hardware);
    EXPECT_EQ(few.ranks.size(), 2u);
    EXPECT_EQ(all.ranks.size(), 16u);
    EXPECT_EQ(few.step_s, all.step_s);
    for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(ends(few.of(rank)), ends(all.of(rank))) << rank;
  }
}

// 4 096 ranks: pp 16, dp 32, tp 8; 96 blocks, 128 micro-batches.
TEST(SimulatePipelines, thousands_of_ranks) {
  const int p = 16, m = 128;
  const Program program =
      pipeline_program(one_f_one_b(p, m), {.blocks = 6, .numel = 1 << 20}, {.dp = 32, .tp = 8}, {.bucket_bytes = 1 << 30});
  const Simulation s = simulate(program, slow_device({.bytes_per_s = 1e9}));
  EXPECT_EQ(program.world_size(), 4096);
  EXPECT_EQ(program.num_blocks(), 96);
  EXPECT_EQ(s.ranks.size(), 16u);
  EXPECT_EQ(s.flops, 18.0 * m * 4096);
  // At the end the first stage reduces its 24 MiB over 32 replicas, at 1 GB/s; then come the losses.
  EXPECT_NEAR(s.step_s, 18.0 * (m + p - 1) + 0.0488, 0.001);
}

}  // namespace
}  // namespace weft
