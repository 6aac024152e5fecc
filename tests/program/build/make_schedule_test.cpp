#include "weft/program/build/make_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/program/pipeline/check_schedule.h"
#include "weft/program/schedules/csv.h"
#include "weft/program/schedules/one_f_one_b.h"

namespace weft {
namespace {

TEST(MakeSchedule, every_name_makes_one) {
  const std::string text = to_csv(one_f_one_b_schedule({.ranks = 4, .micro_batches = 8}));
  for (const ScheduleKind& kind : schedule_kinds()) {
    const std::string name(kind.name);
    const Schedule schedule = make_schedule(name, {.ranks = 4, .chunks = 3, .micro_batches = 8}, {.csv = text});
    EXPECT_EQ(schedule.name, name);
    EXPECT_EQ(schedule.num_ranks(), 4) << name;
    EXPECT_EQ(schedule.num_stages(), 4 * (kind.chunks == ScheduleKind::kChosen ? 3 : kind.chunks)) << name;
    EXPECT_EQ(schedule.micro_batches, 8) << name;
    EXPECT_NO_THROW(check_schedule(schedule)) << name;
  }
}

TEST(MakeSchedule, one_micro_batch_is_enough_for_naive) {
  EXPECT_NO_THROW(make_schedule("naive", {.ranks = 4, .micro_batches = 1}));
}

TEST(MakeSchedule, automatic_without_costs_holds_no_more_than_1f1b) {
  EXPECT_LE(peak_activations(make_schedule("auto", {.ranks = 4, .micro_batches = 16})), 4.0);
}

TEST(MakeSchedule, unfit_shapes_are_refused_with_the_rule) {
  struct Refused {
    std::string name;
    PipelineShape shape;
    std::string says;
  };
  std::vector<Refused> refused = {
      {"1f1", {}, fmt::format("schedule '1f1' is not known: use one of {}", fmt::join(schedule_names(), ", "))},
      {"naive", {.ranks = 0}, "each must be at least 1"},
      {"gpipe", {.ranks = 0, .micro_batches = 0}, "each must be at least 1"},
      {"interleaved", {.ranks = 4, .chunks = 1, .micro_batches = 8}, "needs at least 2"},
      {"interleaved", {.ranks = 4, .chunks = 2, .micro_batches = 6}, "needs a multiple of the ranks (4 or 8)"},
      {"interleaved", {.ranks = 4, .chunks = 2, .micro_batches = 1}, "interleaved: 1 micro-batch on 4 ranks: needs at least"},
      {"csv", {.ranks = 4, .micro_batches = 4}, "the text has 2 rows and 3 micro-batches, the run 4 ranks and 4"},
  };
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (!kind.fills_ranks) continue;
    refused.push_back({std::string(kind.name),
                       {.ranks = 4, .chunks = 2, .micro_batches = 3},
                       "needs at least as many micro-batches as ranks (4 or more)"});
  }
  for (const Refused& one : refused) {
    try {
      make_schedule(one.name, one.shape, {.csv = to_csv(one_f_one_b_schedule({.ranks = 2, .micro_batches = 3}))});
      ADD_FAILURE() << one.name << " passes, but should say: " << one.says;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(one.says), std::string::npos) << error.what() << "\nshould say: " << one.says;
    }
  }
}

TEST(MakeSchedule, automatic_takes_an_entry_per_rank) {
  const PipelineCosts costs{.stages = std::vector<StageTimes>(3)};
  EXPECT_THROW(make_schedule("auto", {.ranks = 4, .micro_batches = 4}, {.costs = costs}), InputError);
}

}  // namespace
}  // namespace weft
