#include "weft/train/save/run_state.h"

#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace weft::run_state_test {
namespace {

TEST(RunState, ComesBackAsItWas) {
  RunState state{.name = "run", .clock = {.steps = 7, .samples = 84, .seconds = 1.5}, .loss = 0.25};
  state.evaluation = EvaluationReport{.step = 6, .loss = 0.5, .accuracy = 0.75, .top5 = 0.875, .seconds = 2};
  state.others = {{.set = "night", .step = 6, .loss = 1.5, .perplexity = 4.5, .averaged = true}};
  state.best = {.loss = BestValue{0.4, 3}, .accuracy = {}};
  NoiseScale noise;
  noise.add(3.0, 1, 2.0, 4);
  noise.add(5.0, 1, 2.5, 4);
  state.noise = noise.sums();
  state.recipe = {{"run.steps", "7"}};
  state.data = {{"training", "60 samples"}};
  const std::string text = run_state_text(state);
  const RunState back = parse_run_state(text, "here");
  EXPECT_EQ(run_state_text(back), text);
  EXPECT_EQ(back.evaluation->top5, 0.875);
  EXPECT_EQ(back.others[0].set, "night");
  EXPECT_EQ(back.others[0].perplexity, 4.5);
  EXPECT_FALSE(back.others[0].accuracy);
  EXPECT_TRUE(back.others[0].averaged);
  EXPECT_FALSE(back.evaluation->averaged);
  EXPECT_EQ(back.best.loss->step, 3);
  EXPECT_FALSE(back.best.accuracy);
  EXPECT_EQ(back.noise.steps, 2);
  EXPECT_EQ(NoiseScale(back.noise).estimate()->spread, noise.estimate()->spread);
  EXPECT_NE(test::refusal([] { parse_run_state("{}", "here"); }), "");
}

}  // namespace
}  // namespace weft::run_state_test
