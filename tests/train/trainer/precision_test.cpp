// Narrow types: how close they come to float32 (fp16 may leave out its first steps), and fp16's dynamic loss scale.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/optim/custom_lion.h"
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

/// On the CPU, whose kernels obey the same two numbers as a device's.
TEST(GatedUpdates, ChangeNothingIfRefusedAndAreForgotten) {
  for (const OptimizerOptions& optimizer :
       {OptimizerOptions(AdamW{}), OptimizerOptions(Sgd{.momentum = 0.9}), OptimizerOptions(Lion{}),
        OptimizerOptions(RmsProp{.momentum = 0.9}), OptimizerOptions(Adagrad{.weight_decay = 0.1}),
        OptimizerOptions(test::gated_lion())}) {
    FlatModel gated = tiny_model(), plain = tiny_model();
    StepUpdater gates(gated, optimizer, {}, 0.0, false), plains(plain, optimizer, {}, 0.0, false);
    ASSERT_TRUE(gates.limits());
    std::vector<int> blocks;
    for (int b = 0; b < gated.num_blocks(); ++b) {
      blocks.push_back(b);
      for (FlatModel* model : {&gated, &plain}) {
        model->flat(b).master.fill_(1.0);
        model->flat(b).owned_gradients.fill_(0.5);
      }
    }
    const auto expect_same = [&](const char* what) {
      for (const int b : blocks) EXPECT_TRUE(gated.flat(b).master.equal(plain.flat(b).master)) << what << ", block " << b;
    };
    const auto rate_of = [&](float rate) { return at::tensor({rate, static_cast<float>(gates.rate().number)}); };
    for (StepUpdater* updater : {&gates, &plains}) {
      updater->use_float32_rates();
      updater->begin(0, 1e-3);
    }
    const auto fill = [&](double gradient) {  // an update may divide them
      for (FlatModel* model : {&gated, &plain}) {
        for (const int b : blocks) model->flat(b).owned_gradients.fill_(gradient);
      }
    };
    gates.update_gated(blocks, at::tensor({4.0f, 1.0f}), rate_of(1e-3f));
    gates.update_gated(blocks, at::tensor({4.0f, 1.0f}), rate_of(1e-3f));
    expect_same("refused");
    fill(0.5);
    gates.forget_updates(2);
    EXPECT_EQ(gates.optimizer().ages(), plains.optimizer().ages());
    EXPECT_EQ(gates.rate().rate, 1e-3f);
    EXPECT_EQ(gates.rate().number, 1);
    gates.update_gated(blocks, at::tensor({4.0f, 0.0f}), rate_of(1e-3f));
    plains.update_all(blocks, 4.0);
    expect_same("made");
    fill(0.25);
    gates.update_gated(blocks, at::tensor({4.0f, 0.0f}), rate_of(2e-3f));
    plains.begin(1, 2e-3);
    plains.update_all(blocks, 4.0);
    expect_same("at the rate that the device holds");
    gates.count_updates({blocks[0]});
    EXPECT_EQ(gates.optimizer().ages()[0], plains.optimizer().ages()[0] + 1);
  }
  FlatModel model = tiny_model();
  EXPECT_TRUE(StepUpdater(model, test::gated_lion(), {}, 0.0, false).limits());
  EXPECT_FALSE(StepUpdater(model, test::custom_lion(), {}, 0.0, false).limits());
}

/// As the host counts a step that it judges itself.
TEST(LossScaling, OfStepsThatADeviceHasJudgedIsCountedWhenTheyAreRead) {
  FlatModel model = tiny_model();
  StepUpdater updater(model, AdamW{}, {}, 0.0, /*scaled=*/true);
  ASSERT_TRUE(updater.limits());
  updater.begin(0, 1e-3);
  std::vector<int> blocks(static_cast<size_t>(model.num_blocks()));
  std::iota(blocks.begin(), blocks.end(), 0);
  for (const bool skipped : {false, true, false}) {
    updater.count_updates(blocks);
    updater.settle_update(skipped);
  }
  updater.begin(3, 1e-3);
  EXPECT_EQ(updater.rate().number, 3) << "after two updates";
  EXPECT_EQ(updater.scaling().scale, 32768.0);
  EXPECT_EQ(updater.scaling().good_steps, 1);
  EXPECT_EQ(updater.scaling().skipped_steps, 1);
  EXPECT_EQ(updater.scale_for_device()->scale, 32768.0);
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
