// Predictions: what one device puts out, in every layout, each sample once, and as if nothing had been.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "tests/train/one_batch.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"

namespace weft::predict_test {
namespace {

constexpr int64_t kSamples = 21;

/// Samples of a job's batch that is larger than those it trains on: 21, so that the last micro-batch is short.
Batch samples_of(const Job& job) {
  const Batch first = job.batch_of(100), second = job.batch_of(101);
  const auto both = [](const at::Tensor& a, const at::Tensor& b) { return at::cat({a, b}).narrow(0, 0, kSamples); };
  return {{both(first.inputs[0], second.inputs[0])}, both(first.target, second.target)};
}

struct Layout {
  const char* name;
  const char* job = "deep_gpt";
  int pp = 1, dp = 1, shard = 1, cp = 1, tp = 1;
  LayoutOptions layout = {};
  int reproducible_tp = 0;
  BackendKind backend = BackendKind::shm;

  int ranks() const { return pp * dp * shard * cp * tp; }
};

std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.name; }

/// A rank after two steps, and the set that it predicts for.
struct Rank {
  Rank(const World& world, const Layout& l, const WeightAverage& average = {})
      : mesh(world, {{"pp", l.pp}, {"dp", l.dp}, {"shard", l.shard}, {"cp", l.cp}, {"tp", l.tp}}),
        data(mesh.join({"dp", "shard"})),
        trainer(mesh, job(l.job).model(), AdamW{.lr = 0.01},
                {.global_batch = 16,
                 .micro_batch = 2,
                 .average = average,
                 .reproducible_slots = l.cp == 1 ? 4 : 0,
                 .reproducible_tp = l.reproducible_tp,
                 .layout = l.layout,
                 .communication = {.backend = l.backend}}),
        batch(samples_of(job(l.job))),
        loader(std::make_shared<OneBatch>(batch), 2, data.index, data.size()) {
    for (int64_t number = 0; number < 2; ++number) step(l, number);
  }
  double step(const Layout& l, int64_t number) {
    const int64_t share = 16 / data.size();
    return trainer.step(slice(job(l.job).batch_of(number), data.index * share, share)).loss;
  }

  Mesh mesh;
  Axis data;
  Trainer trainer;
  Batch batch;
  EvaluationLoader loader;
};

at::Tensor alone(const Layout& layout) {
  at::Tensor outputs;
  const Layout one{.name = "one",
                   .job = layout.job,
                   .layout = {.precision = layout.layout.precision},
                   .reproducible_tp = layout.reproducible_tp};
  test::run_ranks(1, [&](World world) { outputs = Rank(world, one).trainer.predict(samples_of(job(layout.job)))[0]; });
  return outputs;
}

using Compare = std::function<void(const at::Tensor& actual, const at::Tensor& expected, const std::string& what)>;

/// From a loader and from a batch, gathered or not, on every rank.
void expect_predictions(const Layout& layout, const Compare& compare) {
  const at::Tensor expected = alone(layout);
  test::run_ranks(layout.ranks(), [&](World world) {
    Rank rank(world, layout);
    const EvaluationShare& share = rank.loader.share();
    const int64_t begin = std::min(kSamples, 2 * share.first), end = std::min(kSamples, 2 * (share.first + share.count));
    const auto own = [&](const at::Tensor& x) { return x.narrow(0, begin, end - begin); };
    compare(rank.trainer.predict(rank.loader)[0], own(expected), "the loader's share");
    compare(rank.trainer.predict(rank.loader, {.gathered = true})[0], expected, "the loader's set");
    const Batch mine = slice(rank.batch, begin, end - begin);
    compare(rank.trainer.predict(mine)[0], own(expected), "a batch");
    compare(rank.trainer.predict({.inputs = mine.inputs, .target = {}}, {.gathered = true})[0], expected, "all batches");
  });
}

class PredictionBits : public ::testing::TestWithParam<Layout> {};

TEST_P(PredictionBits, AsOneDevice) {
  expect_predictions(GetParam(), [](const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
    EXPECT_TRUE(at::equal(actual, expected)) << what;
  });
}

constexpr ShardLevel kAll = ShardLevel::parameters;

INSTANTIATE_TEST_SUITE_P(
    Layouts, PredictionBits,
    ::testing::Values(Layout{"one"}, Layout{"dp_2", "deep_gpt", 1, 2}, Layout{"dp_4", "deep_tied_gpt", 1, 4},
                      Layout{"zero1", "deep_modules", 1, 1, 2, 1, 1, {.shard_level = ShardLevel::optimizer}},
                      Layout{"zero3", "deep_gpt", 1, 1, 4, 1, 1, {.shard_level = kAll, .offload_parameters = Offload::host}},
                      Layout{"bf16", "deep_mixed", 1, 1, 2, 1, 1, {.shard_level = kAll, .precision = Precision::bf16}},
                      Layout{"pp_2", "deep_tied_gpt", 2}, Layout{"gloo", "deep_gpt", 2, 2, 1, 1, 1, {}, 0, BackendKind::gloo},
                      Layout{"pp_4_zb_v", "deep_gpt", 4, 1, 1, 1, 1, {.pipeline = {.schedule = "zb-v"}}},
                      Layout{"master", "deep_modules", 2, 1, 1, 1, 1, {.master = true}},
                      Layout{"pp_2_zero3", "deep_gpt", 2, 1, 2, 1, 1, {.shard_level = kAll}},
                      Layout{"pieces_1", "split_gpt", 1, 2, 1, 1, 1, {}, 4},
                      Layout{"pieces_2", "split_gpt", 1, 1, 1, 1, 2, {}, 4},
                      Layout{"pieces_4", "split_llama", 1, 1, 1, 1, 4, {}, 4}),
    [](const auto& info) { return std::string(info.param.name); });

class PredictionRounding : public ::testing::TestWithParam<Layout> {};

/// Split layers and sequences round otherwise than one device.
TEST_P(PredictionRounding, AsOneDevice) {
  expect_predictions(GetParam(), [](const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
    ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
    EXPECT_LT((actual - expected).abs().max().item<double>(), 2e-3) << what;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PredictionRounding,
    ::testing::Values(Layout{"tp_2", "split_gpt", 1, 1, 1, 1, 2}, Layout{"tp_4_tied", "deep_tied_gpt", 1, 2, 1, 1, 2},
                      Layout{"sequence_parallel", "split_llama", 1, 2, 1, 1, 2, {.sequence_parallel = true}},
                      Layout{"cp_2", "split_gpt", 1, 2, 1, 2}, Layout{"cp_2_tp_2", "split_llama", 1, 1, 1, 2, 2},
                      Layout{"pp_2_tp_2", "deep_gpt", 2, 1, 1, 1, 2}),
    [](const auto& info) { return std::string(info.param.name); });

/// The loss of an evaluation is that of the predictions: each sample is there once.
TEST(Predictions, AreWhatAnEvaluationIsOf) {
  test::run_ranks(2, [](World world) {
    Rank rank(world, {"dp_2", "deep_gpt", 1, 2});
    const LossValue loss = cross_entropy(rank.trainer.predict(rank.loader, {.gathered = true}), rank.batch.target);
    const EvaluationResult reported = rank.trainer.evaluate(rank.loader);
    EXPECT_EQ(reported.count, loss.count);
    EXPECT_NEAR(reported.loss, loss.sum.item<double>() / static_cast<double>(loss.count), 1e-6);
  });
}

TEST(Predictions, AreVisitedMicroBatchByMicroBatch) {
  test::run_ranks(2, [](World world) {
    Rank rank(world, {"dp_2", "deep_gpt", 1, 2});
    const at::Tensor all = rank.trainer.predict(rank.loader, {.gathered = true})[0];
    for (const bool gathered : {false, true}) {
      std::vector<int64_t> places;
      rank.trainer.for_each_prediction(rank.loader,
                                       [&](int64_t first, const Tensors& outputs) {
                                         places.push_back(first);
                                         EXPECT_TRUE(at::equal(outputs[0], all.narrow(0, first, outputs[0].size(0))));
                                         EXPECT_EQ(outputs[0].size(0), first == 20 ? 1 : 2) << "the last one is short";
                                       },
                                       {.gathered = gathered});
      const std::vector<int64_t> own =
          world.rank() == 0 ? std::vector<int64_t>{0, 2, 4, 6, 8} : std::vector<int64_t>{10, 12, 14, 16, 18, 20};
      EXPECT_EQ(places, gathered ? (std::vector<int64_t>{0, 10, 2, 12, 4, 14, 6, 16, 8, 18, 20}) : own);
    }
  });
}

/// torch's own Dropout and BatchNorm, one of them set to evaluate by the user.
Model moody(torch::nn::Sequential& layers) {
  torch::nn::Dropout kept(0.5);
  kept->eval();
  layers->push_back(torch::nn::Linear(4, 8));
  layers->push_back(torch::nn::BatchNorm1d(8));
  layers->push_back(torch::nn::Dropout(0.5));
  layers->push_back(kept);
  layers->push_back(torch::nn::Linear(8, 3));
  const c10::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(3);
  for (at::Tensor& parameter : layers->parameters()) parameter.uniform_(-0.3, 0.3, generator);
  return sequential_model("moody", layers);
}

/// Steps, draws and modes of a trainer that predicts between its steps, or does not.
std::vector<double> run(bool predicts) {
  torch::nn::Sequential layers;
  Trainer trainer(Mesh(World(), {{"dp", 1}}), moody(layers), AdamW{.lr = 0.01},
                  {.global_batch = 8, .micro_batch = 4, .average = {.decay = 0.5}});
  at::manual_seed(7);
  std::vector<double> reported;
  const Batch batch{{at::arange(32, at::kFloat).view({8, 4}).sin()}, at::arange(8, at::kLong).remainder(3)};
  for (int step = 0; step < 3; ++step) {
    reported.push_back(trainer.step(batch).loss);
    if (predicts) {
      const at::Tensor first = trainer.predict(batch)[0];
      EXPECT_TRUE(at::equal(first, trainer.predict(batch)[0])) << "nothing is dropped, nothing moves";
      EXPECT_FALSE(first.requires_grad());
      trainer.with_average([&] { EXPECT_FALSE(at::equal(first, trainer.predict(batch)[0])) << "of the average"; });
      EXPECT_TRUE(at::equal(first, trainer.predict(batch)[0]));
    }
    reported.push_back(at::rand({1}).item<double>());
    for (const auto& module : layers->children()) reported.push_back(module->is_training() ? 1.0 : 0.0);
  }
  trainer.for_each_weight([&](const std::string&, const at::Tensor& value) { reported.push_back(value.sum().item<double>()); });
  return reported;
}

TEST(Predictions, LeaveTheRunAsItWas) { EXPECT_EQ(run(true), run(false)); }

TEST(Predictions, OfNoSamplesOnARankAreNone) {
  test::run_ranks(2, [](World world) {
    Rank rank(world, {"dp_2", "deep_gpt", 1, 2});
    const Batch mine = slice(rank.batch, 0, world.rank() == 0 ? 3 : 0);
    const at::Tensor all = rank.trainer.predict(mine, {.gathered = true})[0];
    EXPECT_EQ(all.size(0), 3);
    EXPECT_EQ(rank.trainer.predict(mine).size(), world.rank() == 0 ? 1U : 0U);
  });
}

TEST(Predictions, RefuseInvalidBatchesAndALoaderOfAnotherShare) {
  Rank rank(World(), {"one"});
  EXPECT_EQ(test::refusal([&] { rank.trainer.predict(Batch{}); }), "trainer: a batch to predict has no inputs");
  const at::Tensor x = rank.batch.inputs[0];
  EXPECT_EQ(test::refusal([&] {
              rank.trainer.predict(Batch{{x, x.narrow(0, 0, 3)}, {}});
            }),
            "trainer: input 1 has 3 samples in a batch to predict, where input 0 has 21");
  EvaluationLoader half(std::make_shared<OneBatch>(rank.batch), 2, 0, 2);
  EXPECT_NE(test::refusal([&] { rank.trainer.predict(half); }).find("is for data-parallel rank 0 of 2, this one is 0 of 1"),
            std::string::npos);
  EXPECT_EQ(rank.trainer.predict(rank.batch)[0].size(0), kSamples) << "none of that is the trainer's end";
}

}  // namespace
}  // namespace weft::predict_test
