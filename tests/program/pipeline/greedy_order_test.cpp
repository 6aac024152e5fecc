#include "weft/program/pipeline/greedy_order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/program/pipeline/check_schedule.h"

namespace weft {
namespace {

// "F0 I0 W0": kind and micro-batch, in order.
std::string text(const Schedule& schedule, int rank) {
  std::string text;
  for (const Task& task : schedule.tasks[rank]) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", "FBIW"[static_cast<int>(task.kind)], task.micro);
  }
  return text;
}

std::string made(const PipelineCosts& costs, int micro_batches, const GreedyRules& rules) {
  const Schedule schedule = greedy_order(costs, micro_batches, rules);
  check_schedule(schedule);
  return text(schedule, 0);
}

TEST(GreedyOrder, weight_parts_come_last_unless_memory_is_short) {
  PipelineCosts costs{.stages = {{}}};
  EXPECT_EQ(made(costs, 3, {.ahead = {1}}), "F0 I0 F1 I1 F2 I2 W0 W1 W2");
  costs.max_activations = 2;
  EXPECT_EQ(made(costs, 3, {.ahead = {1}}), "F0 I0 F1 I1 W0 F2 I2 W1 W2");
  costs.kept_share = 0.5;
  EXPECT_EQ(made(costs, 3, {.ahead = {1}}), "F0 I0 F1 I1 F2 I2 W0 W1 W2");
  costs.max_activations = 1;
  EXPECT_EQ(made(costs, 3, {.ahead = {1}}), "F0 I0 W0 F1 I1 W1 F2 I2 W2");
}

TEST(GreedyOrder, forwards_run_ahead_as_far_as_rules_and_memory_say) {
  PipelineCosts costs{.stages = {{}, {}, {}}};
  EXPECT_EQ(made(costs, 4, {.ahead = {2, 2, 2}}).substr(0, 8), "F0 F1 I0");
  EXPECT_EQ(made(costs, 4, {.ahead = {4, 2, 2}}).substr(0, 14), "F0 F1 F2 F3 I0");
  costs.max_activations = 3;
  EXPECT_EQ(made(costs, 4, {.ahead = {4, 2, 2}}).substr(0, 11), "F0 F1 F2 I0");
}

// Rank 0 is free at 2, and the first gradient arrives at 2.5.
TEST(GreedyOrder, a_forward_gives_way_to_a_gradient_that_comes_soon) {
  PipelineCosts costs{.stages = {{1, 1, 1}, {0.5, 1, 1}}};
  EXPECT_EQ(made(costs, 3, {.ahead = {3, 3}}).substr(0, 11), "F0 F1 F2 I0");
  EXPECT_EQ(made(costs, 3, {.ahead = {3, 3}, .patience = 0.4}).substr(0, 11), "F0 F1 F2 I0");
  EXPECT_EQ(made(costs, 3, {.ahead = {3, 3}, .patience = 0.6}).substr(0, 8), "F0 F1 I0");
  costs.stages[0].recompute = 0.5;
  EXPECT_EQ(made(costs, 3, {.ahead = {3, 3}}).substr(0, 8), "F0 F1 I0") << "it recomputes meanwhile";
}

TEST(GreedyOrder, preference_decides_when_both_could_start) {
  const PipelineCosts costs{.stages = {{}}};
  const auto order = [&costs](Preference preference) { return made(costs, 3, {.ahead = {3}, .preference = preference}); };
  EXPECT_EQ(order(Preference::backward), "F0 I0 F1 I1 F2 I2 W0 W1 W2");
  EXPECT_EQ(order(Preference::alternate), "F0 I0 F1 I1 F2 I2 W0 W1 W2");
  EXPECT_EQ(order(Preference::forward), "F0 F1 F2 I0 I1 I2 W0 W1 W2");
}

// Rank 0 is free at 3.6, and the second gradient arrives at 5.5: less than a weight part takes.
TEST(GreedyOrder, weight_parts_fill_waits_that_are_long_enough) {
  const PipelineCosts costs{.stages = {{0.5, 0.6, 3}, {0.5, 2, 1}}};
  const auto order = [&costs](double least_gap) { return made(costs, 2, {.ahead = {2, 2}, .least_gap = least_gap}); };
  EXPECT_EQ(order(0.5), "F0 F1 I0 W0 I1 W1");
  EXPECT_EQ(order(1.0), "F0 F1 I0 I1 W0 W1");
}

TEST(GreedyOrder, rules_that_allow_nothing_are_refused) {
  PipelineCosts costs{.stages = {{}, {}}};
  EXPECT_THROW(greedy_order(costs, 2, {.ahead = {1, 0}}), InputError);
  costs.max_activations = 0.5;
  EXPECT_THROW(greedy_order(costs, 2, {.ahead = {1, 1}}), InputError);
}

}  // namespace
}  // namespace weft
