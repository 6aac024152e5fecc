#include "weft/train/run/run_lengths.h"

#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::run_lengths_test {
namespace {

Recipe recipe_with(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(
model = { name = "resnet", depth = 20 }
data = { name = "fashion-mnist" }
batch = { global = 128 }
optimizer = { name = "sgd", lr = 0.1, warmup = "1 epoch", decay = "step", decay_every = "2 epochs" }
run = { epochs = 10, evaluate_every = "2 epochs" }
save = { folder = "runs", every = "10 min" })",
                      "r.toml", overrides);
}

TEST(RunLengths, AreStepsOnceTheDataIsKnown) {
  const RunLengths lengths = run_lengths(recipe_with({}), 60000);
  EXPECT_EQ((std::vector<int64_t>{lengths.steps, lengths.warmup, lengths.decay_every}), (std::vector<int64_t>{4688, 469, 938}));
  EXPECT_EQ(run_length_text(lengths.evaluate_every) + ", " + run_length_text(lengths.save_every), "120000 samples, 600 s");
  EXPECT_EQ(
      run_lengths_text(recipe_with({}), 60000),
      "10 epochs of 60000 samples: 4688 steps; warm-up 1 epoch: 469 steps; between drops of the rate 2 epochs: 938 steps; "
      "between evaluations 2 epochs: 938 steps");
  EXPECT_EQ(run_lengths_text(
                recipe_with({"run.steps=9", "optimizer.warmup=3", "optimizer.decay_every=1", "run.evaluate_every=2"}), 60000),
            "");
  const RunLengths larger = run_lengths(recipe_with({"batch.global=8192"}), 60000);
  EXPECT_EQ(larger.steps, 74);
  EXPECT_EQ(larger.warmup, 8);
}

TEST(RunLengths, LengthsThatDoNotFitTheDataGiveAOneLineError) {
  EXPECT_EQ(test::refusal([] { run_lengths(recipe_with({"run.steps=469"}), 60000); }),
            "r.toml: optimizer.warmup = 1 epoch, which is 469 steps, does not end within the run's 469; shorten the warm-up "
            "(optimizer.warmup=0: none)");
  EXPECT_EQ(test::refusal([] { run_lengths(recipe_with({"run.epochs=1e15"}), 60000); }),
            "r.toml: the run lasts 1000000000000000 epochs, which is more than 1000000000 steps of 128 samples; make it "
            "shorter");
  EXPECT_EQ(test::refusal([] { run_lengths(recipe_with({"run.epochs=1e300"}), 60000); }).substr(0, 25),
            "r.toml: the run lasts 1e+");
}

TEST(RunLengths, CountSamplesThroughARamp) {
  Recipe recipe = recipe_with({"batch.micro=16", "optimizer.decay_every=1"});
  recipe.batch.ramp = {{32, 100}, {64, 200}};  // 16000 samples, then 128 per step
  const RunLengths lengths = run_lengths(recipe, 60000);
  EXPECT_EQ(lengths.steps, 300 + (600000 - 16000) / 128 + 1);
  EXPECT_EQ(lengths.warmup, 300 + (60000 - 16000) / 128 + 1);
  EXPECT_EQ(run_lengths_text(recipe, 60000), "10 epochs of 60000 samples: 4863 steps; warm-up 1 epoch: 644 steps");
  recipe.run.epochs = 0.25;
  recipe.optimizer.warmup = {};
  EXPECT_EQ(test::refusal([&] { run_lengths(recipe, 60000); }),
            "r.toml: the run lasts 0.25 epochs, which is 285 steps, and ends before the 300 steps of batch.ramp have reached "
            "batch.global");
}

}  // namespace
}  // namespace weft::run_lengths_test
