#include "weft/program/pipeline/task_times.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/base/error.h"

namespace weft::task_times_test {
namespace {

using enum TaskKind;

// Two ranks, one stage each, two micro-batches, all forwards first.
Schedule two_ranks() {
  return {.name = "toy",
          .micro_batches = 2,
          .rank_of_stage = {0, 1},
          .tasks = {{{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}},
                    {{forward, 1, 0}, {forward, 1, 1}, {backward, 1, 0}, {backward, 1, 1}}}};
}

std::string error_of(const Schedule& schedule) {
  try {
    task_times(schedule, std::vector<StageTimes>(schedule.num_stages()));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TaskTimes, tasks_start_when_rank_and_input_are_there) {
  const TaskTimes times = task_times(two_ranks(), {{1, 2, 3}, {2, 1, 1}}, 0.5);
  const std::vector<std::vector<double>> starts = {{0, 1, 8, 13}, {1.5, 3.5, 5.5, 7.5}};
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(times[rank][i].start, starts[rank][i]) << rank << ' ' << i;
  }
  EXPECT_DOUBLE_EQ(makespan(times), 18);
  EXPECT_DOUBLE_EQ(longest_span(times), 18);
  EXPECT_DOUBLE_EQ(most_work(times), 12);
  EXPECT_DOUBLE_EQ(bubble_share(times), 1.0 / 3.0);
}

TEST(TaskTimes, stages_of_one_rank_need_no_transfer) {
  Schedule one = two_ranks();
  one.rank_of_stage = {0, 0};
  one.micro_batches = 1;
  one.tasks = {{{forward, 0, 0}, {forward, 1, 0}, {backward, 1, 0}, {backward_input, 0, 0}, {backward_weight, 0, 0}}};
  EXPECT_DOUBLE_EQ(makespan(task_times(one, {{}, {}}, 100.0)), 6);
}

TEST(TaskTimes, a_whole_backward_may_take_less_than_its_parts) {
  Schedule one = two_ranks();
  one.rank_of_stage = {0};
  one.micro_batches = 1;
  one.tasks = {{{forward, 0, 0}, {backward, 0, 0}}};
  const StageTimes times = {.forward = 1, .backward_input = 2, .backward_weight = 3, .whole_backward = 4};
  EXPECT_DOUBLE_EQ(makespan(task_times(one, {times})), 5);
  one.tasks = {{{forward, 0, 0}, {backward_input, 0, 0}, {backward_weight, 0, 0}}};
  EXPECT_DOUBLE_EQ(makespan(task_times(one, {times})), 6);
}

TEST(TaskTimes, a_recompute_does_not_wait_for_the_gradient) {
  Schedule one = two_ranks();
  one.micro_batches = 1;
  one.tasks = {{{forward, 0, 0}, {backward, 0, 0}}, {{forward, 1, 0}, {backward, 1, 0}}};
  const TaskTimes times = task_times(one, {{1, 1, 1, 0.5}, {1, 1, 1, 3}}, 0.0);
  EXPECT_DOUBLE_EQ(times[1][1].start, 2) << "the last stage has its input, and recomputes first";
  EXPECT_DOUBLE_EQ(times[1][1].end, 7);
  EXPECT_DOUBLE_EQ(times[0][1].start, 6.5);
  EXPECT_DOUBLE_EQ(times[0][1].end, 9);
}

TEST(TaskTimes, activations_are_held_until_their_weights_have_gradients) {
  Schedule schedule = two_ranks();
  EXPECT_EQ(peak_activations(schedule, 0), 2);
  schedule.tasks[0] = {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}};
  EXPECT_EQ(peak_activations(schedule, 0), 1);
  schedule.tasks[0] = {{forward, 0, 0},        {backward_input, 0, 0},  {forward, 0, 1},
                       {backward_input, 0, 1}, {backward_weight, 0, 0}, {backward_weight, 0, 1}};
  EXPECT_EQ(peak_activations(schedule, 0), 2);
  EXPECT_EQ(peak_activations(schedule), 2);
  schedule.rank_of_stage = {0, 0};
  EXPECT_EQ(peak_activations(schedule, 0), 1) << "each chunk is half of the rank's blocks";
}

TEST(TaskTimes, a_task_that_can_never_start_is_named) {
  Schedule missing = two_ranks();
  missing.tasks[0].erase(missing.tasks[0].begin());
  EXPECT_NE(error_of(missing).find("rank 1: forward of stage 1, micro-batch 0 can never start"), std::string::npos)
      << error_of(missing);
  EXPECT_NE(error_of(missing).find("the forward of stage 0, which rank 0 never runs"), std::string::npos) << error_of(missing);

  Schedule cycle = two_ranks();
  std::swap(cycle.tasks[1][0], cycle.tasks[1][2]);
  EXPECT_NE(error_of(cycle).find("rank 1: backward of stage 1, micro-batch 0 can never start"), std::string::npos)
      << error_of(cycle);

  Schedule unknown = two_ranks();
  unknown.tasks[1][0].micro = 2;
  EXPECT_NE(error_of(unknown).find("there are 2 stages and 2 micro-batches"), std::string::npos) << error_of(unknown);

  EXPECT_THROW(task_times(two_ranks(), {{}}, 0.0), InputError);
}

}  // namespace
}  // namespace weft::task_times_test
