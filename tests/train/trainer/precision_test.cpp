// Narrow types: how close they come to float32 (fp16 may leave out its first steps), and fp16's dynamic loss scale.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/train/jobs.h"
#include "weft/base/error.h"

namespace weft::precision_test {
namespace {

constexpr int kSteps = 8;

class PrecisionTest : public ::testing::TestWithParam<std::tuple<Precision, const char*>> {};

TEST_P(PrecisionTest, FollowsFloat32) {
  const auto& [precision, name] = GetParam();
  const auto losses = [&, name = name](Precision p) {
    const Strategy s{
        .name = "", .clip = 1.0, .spread = Spread::shard, .layout = {.shard_level = ShardLevel::gradients, .precision = p}};
    return train_ranks(job(name), s, 2, sgd_of(s), kSteps).losses;
  };
  const std::vector<double> wide = losses(Precision::fp32), narrow = losses(precision);
  for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(narrow[step], wide[step], 0.03 * wide[step]) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Types, PrecisionTest,
                         ::testing::Combine(::testing::Values(Precision::bf16, Precision::fp16),
                                            ::testing::Values("gpt", "llama", "cnn", "mlp")),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
                         });

/// One block of one weight, so that an updater has something to hold.
FlatModel tiny_model() { return FlatModel(job("mlp").model(), {}); }

TEST(LossScaling, HalvesOnOverflowAndGrowsAgain) {
  FlatModel model = tiny_model();
  StepUpdater updater(model, AdamW{}, {}, /*clip=*/0.0, /*scaled=*/true);
  const double first = updater.loss_scale();
  updater.begin(0, 1e-3);
  EXPECT_FALSE(updater.accept(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(updater.accept(std::nan("")));
  EXPECT_EQ(updater.loss_scale(), first / 4);
  EXPECT_EQ(updater.scaling().skipped_steps, 2);
  for (int step = 0; step < 1999; ++step) EXPECT_TRUE(updater.accept(1.0));
  EXPECT_EQ(updater.loss_scale(), first / 4);
  EXPECT_TRUE(updater.accept(1.0));
  EXPECT_EQ(updater.loss_scale(), first / 2);
}

TEST(LossScaling, GivesUpAtOne) {
  FlatModel model = tiny_model();
  StepUpdater updater(model, AdamW{}, {}, 0.0, true);
  updater.begin(7, 1e-3);
  while (updater.loss_scale() > 1.0) EXPECT_FALSE(updater.accept(std::nan("")));
  EXPECT_THROW(updater.accept(std::nan("")), NumericError);
}

TEST(LossScaling, OtherTypesTakeNoNormThatIsNotFinite) {
  FlatModel model = tiny_model();
  StepUpdater updater(model, AdamW{}, {}, 1.0, false);
  updater.begin(7, 1e-3);
  EXPECT_EQ(updater.loss_scale(), 1.0);
  EXPECT_THROW(updater.accept(std::nan("")), NumericError);
}

/// Gradients that overflow fp16 at the first scale: the step changes nothing, and is counted.
TEST(LossScaling, ASkippedStepChangesNothing) {
  Trainer trainer(Mesh(World(), {{"dp", 1}}), job("mlp").model(), Sgd{.lr = 1.0},
                  {.global_batch = kGlobalBatch, .micro_batch = kGlobalBatch, .layout = {.precision = Precision::fp16}});
  Batch batch = job("mlp").batch_of(0);
  for (at::Tensor& input : batch.inputs) input.mul_(300.0);
  std::vector<at::Tensor> before, after;
  trainer.for_each_weight([&](const std::string&, const at::Tensor& value) { before.push_back(value.clone()); });
  const StepResult result = trainer.step(batch);
  trainer.for_each_weight([&](const std::string&, const at::Tensor& value) { after.push_back(value.clone()); });
  ASSERT_TRUE(result.skipped) << "norm " << result.norm;
  EXPECT_EQ(trainer.loss_scale().skipped_steps, 1);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i]));
}

}  // namespace
}  // namespace weft::precision_test
