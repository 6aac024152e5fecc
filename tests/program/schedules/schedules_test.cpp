// The schedules vs their papers' claims: bubble and peak activations, on equal stages where a forward and each part of a
// backward take 1 and a transfer takes 0.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/program/build/make_schedule.h"
#include "weft/program/pipeline/check_schedule.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/schedules/gpipe.h"
#include "weft/program/schedules/interleaved.h"
#include "weft/program/schedules/naive.h"
#include "weft/program/schedules/one_f_one_b.h"
#include "weft/program/schedules/zb_h1.h"
#include "weft/program/schedules/zb_h2.h"
#include "weft/program/schedules/zb_v.h"

namespace weft {
namespace {

using Formula = std::function<double(int p, int v, int m)>;

struct Case {
  Schedule (*make)(const PipelineShape&);
  std::vector<int> chunks;
  bool multiple_of_ranks;           ///< m must be a multiple of p
  std::function<int(int p)> ideal;  ///< least m from which the formulas hold
  Formula bubble;                   ///< time lost, a whole stage's forward taking 1
  Formula activations;
};

std::vector<Case> cases() {
  const auto from_p = [](int p) { return p; };
  const auto from_full = [](int p) { return 2 * p - 1; };
  const auto p_of = [](int p, int, int) { return p; };
  return {
      {naive_schedule,
       {1},
       false,
       from_p,
       [](int p, int, int m) { return 3.0 * m * (p - 1); },
       [](int, int, int) { return 1; }},
      {gpipe_schedule, {1}, false, from_p, [](int p, int, int) { return 3.0 * (p - 1); }, [](int, int, int m) { return m; }},
      {one_f_one_b_schedule, {1}, false, from_p, [](int p, int, int) { return 3.0 * (p - 1); }, p_of},
      {interleaved_schedule,
       {2, 3, 4},
       true,
       [](int p) { return 2 * p; },
       [](int p, int v, int) { return 3.0 * (p - 1) / v; },
       [](int p, int v, int) { return p + (p - 1.0) / v; }},
      {zb_h1_schedule, {1}, false, from_p, [](int p, int, int) { return p - 1.0; }, p_of},
      {zb_h2_schedule, {1}, false, from_full, [](int, int, int) { return 0.0; }, [](int p, int, int) { return 2 * p - 1; }},
      {zb_v_schedule, {2}, false, from_full, [](int, int, int) { return 0.0; }, p_of},
  };
}

TaskTimes equal_times(const Schedule& schedule, int chunks) {
  const double part = 1.0 / chunks;
  return task_times(schedule, std::vector<StageTimes>(schedule.num_stages(), {part, part, part}));
}

std::vector<int> micro_batches(const Case& one, int p) {
  if (one.multiple_of_ranks) return {p, 2 * p, 5 * p};
  return {1, (p + 1) / 2, p, p + 1, 2 * p - 1, 2 * p, 3 * p + 1, 8 * p};
}

void for_each(const std::function<void(const Case&, const Schedule&, PipelineShape)>& check) {
  for (const Case& one : cases()) {
    for (const int p : {1, 2, 3, 4, 7, 8, 16}) {
      for (const int v : one.chunks) {
        for (const int m : micro_batches(one, p)) {
          const PipelineShape shape{.ranks = p, .chunks = v, .micro_batches = m};
          const Schedule schedule = one.make(shape);
          SCOPED_TRACE(fmt::format("{}, p {} v {} m {}", schedule.name, p, v, m));
          check(one, schedule, shape);
        }
      }
    }
  }
}

TEST(Schedules, every_one_is_here) {
  const std::vector<Case> known = cases();
  for (const ScheduleKind& kind : schedule_kinds()) {
    const auto is_it = [&kind](const Case& one) { return one.make == kind.make; };
    EXPECT_TRUE(kind.make == nullptr || std::any_of(known.begin(), known.end(), is_it))
        << kind.name << ": write its bubble and activations into cases()";
  }
}

TEST(Schedules, every_one_is_complete_and_in_order) {
  for_each([](const Case&, const Schedule& schedule, PipelineShape shape) {
    EXPECT_NO_THROW(check_schedule(schedule));
    EXPECT_EQ(schedule.num_ranks(), shape.ranks);
    EXPECT_EQ(schedule.num_stages(), shape.ranks * shape.chunks);
    EXPECT_EQ(schedule.micro_batches, shape.micro_batches);
  });
}

TEST(Schedules, bubbles_are_those_of_the_papers) {
  for_each([](const Case& one, const Schedule& schedule, PipelineShape shape) {
    if (shape.micro_batches < one.ideal(shape.ranks)) return;
    const double bubble = one.bubble(shape.ranks, shape.chunks, shape.micro_batches);
    const TaskTimes times = equal_times(schedule, shape.chunks);
    EXPECT_NEAR(longest_span(times) - 3.0 * shape.micro_batches, bubble, 1e-9);
    EXPECT_NEAR(bubble_share(times), bubble / (bubble + 3.0 * shape.micro_batches), 1e-12);
  });
}

TEST(Schedules, gpipe_and_1f1b_lose_p_minus_1_of_m_plus_p_minus_1) {
  for (const auto& make : {gpipe_schedule, one_f_one_b_schedule}) {
    for (const int m : {4, 8, 33}) {
      EXPECT_NEAR(bubble_share(equal_times(make({.ranks = 4, .micro_batches = m}), 1)), 3.0 / (m + 3), 1e-12);
    }
  }
}

TEST(Schedules, peak_activations_are_those_of_the_papers) {
  for_each([](const Case& one, const Schedule& schedule, PipelineShape shape) {
    const double most = one.activations(shape.ranks, shape.chunks, shape.micro_batches);
    if (shape.micro_batches >= one.ideal(shape.ranks)) {
      EXPECT_DOUBLE_EQ(peak_activations(schedule), most);
    } else {
      EXPECT_LE(peak_activations(schedule), most);
    }
  });
}

TEST(Schedules, zero_bubble_ones_lose_nothing_from_first_task_to_last) {
  for (const int p : {2, 4, 8}) {
    for (const auto& [schedule, v] : {std::pair(zb_h2_schedule({.ranks = p, .micro_batches = 3 * p}), 1),
                                      std::pair(zb_v_schedule({.ranks = p, .chunks = 2, .micro_batches = 3 * p}), 2)}) {
      for (const auto& rank : equal_times(schedule, v)) {
        EXPECT_NEAR(rank.back().end - rank.front().start, 9.0 * p, 1e-9) << schedule.name << ", p " << p;
      }
    }
  }
}

// Megatron-LM's order on rank 0 of 2, two chunks (stages 0 and 2), four micro-batches.
TEST(Schedules, interleaved_runs_as_megatron_does) {
  const Schedule schedule = interleaved_schedule({.ranks = 2, .chunks = 2, .micro_batches = 4});
  std::string text;
  for (const Task& task : schedule.tasks[0]) {
    text += fmt::format("{}{}.{} ", task.kind == TaskKind::forward ? 'F' : 'B', task.stage, task.micro);
  }
  EXPECT_EQ(text, "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3 ");
}

TEST(Schedules, chunks_that_do_not_suit_are_refused) {
  EXPECT_THROW(gpipe_schedule({.ranks = 2, .chunks = 2, .micro_batches = 2}), InputError);
  EXPECT_THROW(zb_v_schedule({.ranks = 2, .chunks = 3, .micro_batches = 2}), InputError);
}

}  // namespace
}  // namespace weft
