#include "weft/program/schedules/automatic.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/program/build/make_schedule.h"
#include "weft/program/pipeline/check_schedule.h"
#include "weft/program/schedules/gpipe.h"
#include "weft/program/schedules/one_f_one_b.h"
#include "weft/program/schedules/zb_h1.h"
#include "weft/program/schedules/zb_h2.h"

namespace weft {
namespace {

struct Search {
  PipelineShape shape;
  PipelineCosts costs;
};

double limit_of(const Search& search) { return search.costs.max_activations > 0.0 ? search.costs.max_activations : 1e9; }

double time_of(const Schedule& schedule, const PipelineCosts& costs) {
  const TaskTimes times = task_times(schedule, costs.stages, costs.transfer);
  return costs.goal == Goal::makespan ? makespan(times) : longest_span(times);
}

double most_activations(const Schedule& schedule, double kept_share) {
  double most = 0.0;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) most = std::max(most, peak_activations(schedule, rank, kept_share));
  return most;
}

Schedule made(const Search& search) { return make_schedule("auto", search.shape, {.costs = search.costs}); }

// Complete, within the limit, and not worse than any built-in schedule within the limit.
void expect_good(const Search& search) {
  const Schedule schedule = made(search);
  ASSERT_NO_THROW(check_schedule(schedule));
  EXPECT_LE(most_activations(schedule, search.costs.kept_share), limit_of(search) + 1e-6);
  const double time = time_of(schedule, search.costs);
  for (const auto& make : {gpipe_schedule, one_f_one_b_schedule, zb_h1_schedule, zb_h2_schedule}) {
    const Schedule other = make(search.shape);
    if (most_activations(other, search.costs.kept_share) > limit_of(search) + 1e-9) continue;
    EXPECT_LE(time, time_of(other, search.costs) * (1.0 + 1e-9)) << other.name;
  }
}

Search random_search(unsigned seed) {
  std::mt19937 random(seed);
  const auto between = [&random](double low, double high) { return low + (high - low) * (random() / 4294967296.0); };
  const auto count = [&random](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  Search search;
  const int ranks = count(1, 8);
  search.shape = {.ranks = ranks, .chunks = 1, .micro_batches = count(ranks, 4 * ranks)};
  const double spread = between(0.0, 0.9);
  const bool recompute = count(0, 1) == 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto time = [&] { return between(1.0 - spread, 1.0 + spread); };
    search.costs.stages.push_back({time(), time(), time(), recompute ? time() : 0.0});
  }
  search.costs.transfer = between(0.0, 0.3);
  search.costs.kept_share = count(0, 1) == 0 ? 1.0 : between(0.0, 1.0);
  search.costs.max_activations = count(0, 4) == 0 ? 0.0 : between(1.0, 2.5 * ranks);
  search.costs.goal = count(0, 1) == 0 ? Goal::longest_span : Goal::makespan;
  return search;
}

// A failure prints its seed; WEFT_SEED replays it alone.
TEST(Automatic, random_pipelines_are_never_worse_than_schedules_by_hand) {
  const char* replay = std::getenv("WEFT_SEED");
  const unsigned first = replay != nullptr ? static_cast<unsigned>(std::stoul(replay)) : 1;
  const unsigned last = replay != nullptr ? first : 60;
  for (unsigned seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(fmt::format("WEFT_SEED={}", seed));
    expect_good(random_search(seed));
  }
}

TEST(Automatic, has_no_bubble_where_theory_has_none) {
  for (const int p : {1, 2, 4, 8}) {
    const Search search{.shape = {.ranks = p, .micro_batches = 3 * p},
                        .costs = {.stages = std::vector<StageTimes>(p), .max_activations = 2.0 * p - 1}};
    EXPECT_NEAR(time_of(made(search), search.costs), 9.0 * p, 1e-6) << p;
  }
}

// To one percent: it is a search.
TEST(Automatic, more_memory_is_not_slower) {
  Search search = random_search(7);
  search.shape = {.ranks = 6, .micro_batches = 18};
  search.costs.stages = {{1, 1.1, 0.8}, {1, 1.1, 0.8}, {1.2, 1.3, 1}, {1, 1.1, 0.8}, {1, 1.1, 0.8}, {1.4, 1.5, 1}};
  double before = 1e300;
  for (const double limit : {1.0, 2.0, 4.0, 6.0, 9.0, 12.0, 0.0}) {
    search.costs.max_activations = limit;
    expect_good(search);
    const double time = time_of(made(search), search.costs);
    EXPECT_LE(time, before * 1.01) << limit;
    before = time;
  }
}

TEST(Automatic, the_same_costs_give_the_same_list) {
  const Search search = random_search(3);
  EXPECT_EQ(made(search).tasks, made(search).tasks);
}

TEST(Automatic, units_of_time_do_not_matter) {
  Search search = random_search(5);
  const Schedule schedule = made(search);
  for (StageTimes& times : search.costs.stages) {
    times = {times.forward * 1024, times.backward_input * 1024, times.backward_weight * 1024, times.recompute * 1024};
  }
  search.costs.transfer *= 1024;
  EXPECT_EQ(made(search).tasks, schedule.tasks);
}

TEST(Automatic, sixteen_stages_and_128_micro_batches) {
  expect_good({.shape = {.ranks = 16, .micro_batches = 128},
               .costs = {.stages = std::vector<StageTimes>(16, {1.0, 1.1, 0.8}), .transfer = 0.05, .max_activations = 24}});
}

TEST(Automatic, costs_that_make_no_sense_are_refused) {
  const auto says = [](const PipelineCosts& costs) -> std::string {
    try {
      automatic_schedule(costs, 4);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  PipelineCosts costs{.stages = std::vector<StageTimes>(2)};
  EXPECT_EQ(says(costs), "no error");
  costs.max_activations = 0.5;
  EXPECT_NE(says(costs).find("must be at least 1, or 0 for no limit"), std::string::npos) << says(costs);
  costs = {.stages = {{}, {-1.0, 1.0, 1.0}}};
  EXPECT_NE(says(costs).find("stage 1 takes -1 forward"), std::string::npos) << says(costs);
  costs = {.stages = std::vector<StageTimes>(2), .kept_share = 1.5};
  EXPECT_NE(says(costs).find("kept_share is 1.5"), std::string::npos) << says(costs);
}

}  // namespace
}  // namespace weft
