// The gradient noise scale, measured during training: both norms against plain LibTorch in every layout, the same bits with
// slots, and an estimate that matches the known noise.
#include "weft/report/noise_scale.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/nn/modules/module_block.h"

namespace weft::noise_scale_test {
namespace {

constexpr int kSteps = 2, kMany = 200;

struct Case {
  const char* name;
  const char* job;
  Strategy strategy;
  int ranks;
  double tolerance = 1e-4;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

Strategy measured(Strategy strategy) {
  strategy.noise_scale = true;
  return strategy;
}

LayoutOptions at_level(ShardLevel level, Precision precision = Precision::fp32) {
  return {.shard_level = level, .precision = precision};
}

LayoutOptions in_order(const char* schedule) { return {.pipeline = {.schedule = schedule}}; }

const std::vector<Case>& cases() {
  using enum ShardLevel;
  static const std::vector<Case> all = {
      {"accumulation", "gpt", {.micro_batch = 3}, 1},
      {"batch_norm", "cnn", {.micro_batch = 3}, 1},
      {"replicas", "gpt", {}, 4},
      {"replicas_in_buckets", "mlp", {.micro_batch = 2, .bucket_bytes = 1}, 2},
      {"tied_on_one_stage", "tied_gpt", {.micro_batch = 2}, 2},
      {"clipped", "cnn", {.micro_batch = 2, .clip = 0.05}, 2},
      {"optimizer", "gpt", {.micro_batch = 3, .spread = Spread::shard, .layout = at_level(optimizer)}, 2},
      {"gradients", "gpt", {.micro_batch = 3, .spread = Spread::shard, .layout = at_level(gradients)}, 2},
      {"parameters", "cnn", {.micro_batch = 3, .spread = Spread::shard, .layout = at_level(parameters)}, 4},
      {"hybrid", "gpt", {.micro_batch = 1, .spread = Spread::hybrid, .layout = at_level(parameters)}, 4},
      {"slots", "gpt", {.micro_batch = 1, .slots = 4}, 2},
      {"slots_sharded", "gpt", {.micro_batch = 1, .slots = 4, .spread = Spread::shard, .layout = at_level(gradients)}, 2},
      {"pipeline", "deep_gpt", {.micro_batch = 2, .pp = 2}, 4},
      {"zb_h1", "deep_llama", {.micro_batch = 2, .pp = 2, .layout = in_order("zb-h1")}, 2},
      {"interleaved", "deep_gpt", {.micro_batch = 2, .pp = 2, .layout = in_order("interleaved")}, 2},
      {"tensor_parallel", "split_gpt", {.micro_batch = 4, .tp = 2}, 4},
      {"bf16", "mlp", {.micro_batch = 3, .layout = at_level(none, Precision::bf16)}, 2, 0.05},
      {"fp16_scaled", "mlp", {.micro_batch = 3, .layout = at_level(none, Precision::fp16)}, 2, 0.02},
  };
  return all;
}

class NoiseSquares : public ::testing::TestWithParam<Case> {};

TEST_P(NoiseSquares, EqualThoseOfPlainLibTorch) {
  const Case& c = GetParam();
  const Job& job = weft::job(c.job);
  const Strategy strategy = measured(c.strategy);
  const Trained actual = train_ranks(job, strategy, c.ranks, sgd_of(strategy), kSteps);
  const int64_t micro = micro_batch_of(job, strategy, c.ranks), all = job.global_batch / micro;
  const int64_t small = strategy.slots > 0 ? strategy.slots : c.ranks / (strategy.pp * strategy.tp);
  const Trained expected = train_reference(job.model, job.batch_of,
                                           {.global_batch = job.global_batch,
                                            .micro_batch = micro,
                                            .steps = kSteps,
                                            .clip = strategy.clip,
                                            .small_batch_every = all / small,
                                            .sgd = sgd_of(strategy)});
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(actual.small_squares[step], expected.small_squares[step], c.tolerance * expected.small_squares[step]) << step;
    EXPECT_NEAR(actual.norms[step], expected.norms[step], c.tolerance * expected.norms[step]) << step;
    const double whole = expected.norms[step] * expected.norms[step];
    EXPECT_GT(std::abs(expected.small_squares[step] - whole), 0.02 * whole) << "nothing to record apart";
  }
}

INSTANTIATE_TEST_SUITE_P(, NoiseSquares, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

/// Small batches are the slots' first micro-batches whoever has them.
TEST(NoiseScale, HasTheSameBitsOnAnyNumberOfRanks) {
  const Job& gpt = job("gpt");
  const Trained one = train_ranks(gpt, measured({.micro_batch = 1, .slots = 4}), 1, AdamW{}, kSteps);
  const Trained unmeasured = train_ranks(gpt, {.micro_batch = 1, .slots = 4, .clip = 1e9}, 1, AdamW{}, kSteps);
  expect_equal(one, unmeasured, "measuring changes nothing");
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::gradients, ShardLevel::parameters}) {
    for (const int ranks : {2, 4}) {
      const Strategy strategy = measured({.micro_batch = 1, .slots = 4, .spread = Spread::shard, .layout = at_level(level)});
      const Trained trained = train_ranks(gpt, strategy, ranks, AdamW{}, kSteps);
      EXPECT_EQ(trained.small_squares, one.small_squares) << name(level) << " on " << ranks;
      EXPECT_EQ(trained.norms, one.norms) << name(level) << " on " << ranks;
    }
  }
}

/// The gradient of a sample is the sample: Gaussian noise of known covariance around a known mean, whatever the weights are.
class KnownNoise {
 public:
  static constexpr int64_t kInputs = 64;
  static constexpr double kMean = 0.05, kDeviation = 0.5;
  static constexpr double kScale = kDeviation * kDeviation / (kMean * kMean);  ///< both are sums over kInputs

  static Model model() {
    torch::nn::Sequential layers(torch::nn::Linear(torch::nn::LinearOptions(kInputs, 1).bias(false)));
    Model model = sequential_model("known", layers);
    model.loss = [](const Tensors& outputs, const at::Tensor& target) {
      return LossValue{outputs.front().to(at::kFloat).sum(), target.numel()};
    };
    return model;
  }
  static Batch samples(int64_t step, int64_t begin, int64_t count) {
    Batch batch{.inputs = {}, .target = at::zeros({count}, at::kLong), .first_sample = begin};
    std::vector<at::Tensor> rows;
    rows.reserve(static_cast<size_t>(count));
    for (int64_t i = begin; i < begin + count; ++i) {
      auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step * 1000 + i));
      rows.push_back(at::randn({kInputs}, generator, at::kFloat).mul(kDeviation).add(kMean));
    }
    batch.inputs = {at::stack(rows)};
    return batch;
  }
};

NoiseEstimate estimate_known(int ranks, int64_t micro, int slots, int steps) {
  constexpr int64_t kGlobal = 32;
  NoiseScale noise;
  test::run_ranks(ranks, [&](const World& world) {
    const Mesh mesh(world, {{"dp", ranks}});
    Trainer trainer(mesh, KnownNoise::model(), Sgd{.lr = 1e-3},
                    {.global_batch = kGlobal, .micro_batch = micro, .reproducible_slots = slots, .noise_scale = true});
    const int64_t share = kGlobal / ranks;
    for (int step = 0; step < steps; ++step) {
      const StepResult result = trainer.step(KnownNoise::samples(step, world.rank() * share, share));
      if (world.rank() == 0) noise.add(result.small_squares, micro, result.norm * result.norm, kGlobal);
    }
  });
  return *noise.estimate();
}

TEST(NoiseScale, MatchesTheKnownNoise) {
  const struct {
    int ranks;
    int64_t micro;
  } layouts[] = {{1, 16}, {2, 16}, {4, 2}};
  for (const auto& [ranks, micro] : layouts) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks, micro-batches of " << micro);
    const NoiseEstimate noise = estimate_known(ranks, micro, 0, kMany);
    ASSERT_TRUE(noise.batch && noise.spread);
    EXPECT_EQ(noise.steps, kMany);
    EXPECT_NEAR(noise.trace, KnownNoise::kInputs * KnownNoise::kDeviation * KnownNoise::kDeviation, 0.1 * noise.trace);
    EXPECT_NEAR(*noise.batch, KnownNoise::kScale, 3.0 * *noise.spread);
    EXPECT_LT(*noise.spread, 0.15 * KnownNoise::kScale);
    EXPECT_GT(*noise.spread, 0.002 * KnownNoise::kScale);
  }
}

TEST(NoiseScale, OfSlotsIsTheSameNumberOnAnyRanks) {
  const NoiseEstimate one = estimate_known(1, 4, 4, 20);
  for (const int ranks : {2, 4}) {
    const NoiseEstimate noise = estimate_known(ranks, 4, 4, 20);
    EXPECT_EQ(noise.trace, one.trace);
    EXPECT_EQ(noise.gradient, one.gradient);
  }
}

}  // namespace
}  // namespace weft::noise_scale_test
