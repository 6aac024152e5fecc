// When a run is restarted, on how many ranks, and when it is not.
#include "weft/launch/restart_rules.h"

#include <gtest/gtest.h>

namespace weft::restart_rules_test {
namespace {

TEST(RestartRules, EndWhenRestartsAreUsedUp) {
  RestartRules rules({.restarts = 2});
  EXPECT_TRUE(rules.failed(5).again);
  EXPECT_TRUE(rules.failed(9).again);
  const RestartDecision last = rules.failed(14);
  EXPECT_FALSE(last.again);
  EXPECT_EQ(last.why, "2 restarts used up");
  RestartRules none({.restarts = 0});
  EXPECT_FALSE(none.failed(3).again);
}

TEST(RestartRules, ARecurringFaultAtTheSameStepEndsTheRun) {
  RestartRules rules({.restarts = 100});
  EXPECT_EQ(rules.failed(7).pause_s, 0.0);
  const RestartDecision second = rules.failed(7);
  EXPECT_TRUE(second.again);
  EXPECT_GT(second.pause_s, 0.0);
  const RestartDecision third = rules.failed(7);
  EXPECT_FALSE(third.again);
  EXPECT_EQ(third.why, "it failed 3 times after step 7 without progress");
}

TEST(RestartRules, WithoutStepsOnlyTheirNumberCounts) {
  RestartRules rules({.restarts = 5, .most_in_vain = 1000});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(rules.failed(0).again) << i;
  EXPECT_EQ(rules.failed(0).why, "5 restarts used up");
}

TEST(RestartRules, AnotherStepIsAnotherFault) {
  RestartRules rules({.restarts = 100});
  for (const int step : {7, 7, 8, 8, 9, 3, 3}) EXPECT_TRUE(rules.failed(step).again) << step;
}

TEST(RestartRules, ContinueOnFewerThatFitAndTryAllAgain) {
  RestartRules rules({.restarts = 100, .least_ranks = 1, .most_ranks = 4, .fits = [](int ranks) { return ranks != 3; }});
  EXPECT_EQ(rules.failed(7).ranks, 4);
  EXPECT_EQ(rules.failed(7).ranks, 2);  // a device may be gone
  EXPECT_TRUE(rules.is_smaller());
  EXPECT_EQ(rules.failed(7).ranks, 2);
  EXPECT_EQ(rules.failed(7).ranks, 1);
  EXPECT_EQ(rules.failed(20).ranks, 4);  // it made progress
  EXPECT_FALSE(rules.is_smaller());
  rules.failed(20);
  EXPECT_EQ(rules.ranks(), 2);
  rules.grow();
  EXPECT_EQ(rules.ranks(), 4);
  EXPECT_EQ(rules.restarts(), 6);
}

TEST(RestartRules, WaitLongerEachTimeInVain) {
  RestartRules rules({.restarts = 100, .least_ranks = 1, .most_ranks = 8});
  double before = -1.0;
  for (int i = 0; i < 8; ++i) {
    const RestartDecision decision = rules.failed(3);
    EXPECT_TRUE(decision.again);
    EXPECT_GE(decision.pause_s, before);
    before = decision.pause_s;
  }
  EXPECT_LE(before, 60.0);
}

TEST(RestartRules, WithoutStepsTimeAliveIsProgress) {
  RestartRules rules({.restarts = 100, .most_in_vain = 1000});
  for (int i = 0; i < 8; ++i) rules.failed(0, 1.0);
  EXPECT_EQ(rules.failed(0, 59.0).pause_s, 60.0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rules.failed(0, 600.0).pause_s, 0.0) << "it was well for minutes";
  EXPECT_EQ(rules.failed(0, 1.0).pause_s, 0.5);
}

TEST(RestartRules, ALostHostLeavesRoomForFewer) {
  RestartRules rules({.restarts = 9, .least_ranks = 2, .most_ranks = 8, .fits = [](int ranks) { return ranks % 2 == 0; }});
  EXPECT_EQ(rules.most_within(100), 8);
  EXPECT_EQ(rules.most_within(5), 4) << "five do not fit";
  EXPECT_EQ(rules.most_within(1), 0) << "fewer than the fewest";
  EXPECT_TRUE(rules.failed(10).again);
  rules.bound(4);
  EXPECT_EQ(rules.ranks(), 4);
  EXPECT_FALSE(rules.is_smaller()) << "there is room for no more";
  EXPECT_EQ(rules.failed(20).ranks, 4);
  rules.bound(8);  // the room is back
  EXPECT_EQ(rules.ranks(), 4) << "until the run grows";
  EXPECT_TRUE(rules.is_smaller());
  rules.grow();
  EXPECT_EQ(rules.ranks(), 8);
}

TEST(RestartRules, LateHostsAreUsed) {
  RestartRules rules({.restarts = 9, .least_ranks = 0, .most_ranks = 0, .fits = [](int ranks) { return ranks % 2 == 0; }});
  rules.set_least(4);
  EXPECT_EQ(rules.most_within(3), 0);
  rules.start_within(rules.most_within(5).value_or(0));
  EXPECT_EQ(rules.ranks(), 4);
  EXPECT_TRUE(rules.failed(10).again);
  rules.start_within(rules.most_within(9).value_or(0));
  EXPECT_EQ(rules.ranks(), 8);
  rules.failed(10);  // the same fault: fewer ranks, regardless of room
  rules.start_within(rules.most_within(10).value_or(0));
  EXPECT_EQ(rules.ranks(), 6);
  EXPECT_TRUE(rules.is_smaller());
  rules.failed(20);
  rules.start_within(rules.most_within(10).value_or(0));
  EXPECT_EQ(rules.ranks(), 10);
}

}  // namespace
}  // namespace weft::restart_rules_test
