// The Trainer as a library user sees it: errors, torch::nn modules, evaluation over uneven shares, given weights.
#include "weft/train/trainer/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <ostream>

#include "tests/support/refusal.h"
#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "tests/train/reference.h"
#include "weft/base/error.h"
#include "weft/checkpoint/digest.h"
#include "weft/models/vision.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"

namespace weft::trainer_test {
namespace {

constexpr int64_t kBatch = 8;

Model tiny_mlp() { return mlp({.inputs = 6, .width = 8, .layers = 1, .classes = 3}); }

/// The global batch of a step: [8, 6] and its labels.
Batch batch_of(int64_t step) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const at::Tensor x = at::randn({kBatch, 6}, generator, at::kFloat);
  return {{x}, at::randint(3, {kBatch}, generator, at::kLong), step * kBatch};
}

struct RefusedCase {
  const char* name;
  int world;
  std::vector<AxisSize> mesh;
  TrainerOptions options;
  const char* says;
};

void PrintTo(const RefusedCase& c, std::ostream* out) { *out << c.says; }

class TrainerRefuses : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(TrainerRefuses, WithOneLineThatSaysWhatToDo) {
  const RefusedCase& c = GetParam();
  const Mesh mesh(World::threads(c.world)[0], c.mesh);
  const std::string error = test::refusal([&] { Trainer(mesh, tiny_mlp(), Sgd{}, c.options); });
  EXPECT_NE(error.find(c.says), std::string::npos) << "it said: " << error;
}

TEST(Trainer, ItsLoaderHasItsDeadline) {
  const Mesh mesh(World(), {{"dp", 1}});
  const Trainer trainer(mesh, tiny_mlp(), Sgd{},
                        {.global_batch = kBatch, .communication = {.timeout = std::chrono::milliseconds(2500)}});
  EXPECT_EQ(trainer.loader_options().timeout_s, 2.5);
}

INSTANTIATE_TEST_SUITE_P(
    Options, TrainerRefuses,
    ::testing::Values(
        RefusedCase{"ranks",
                    3,
                    {{"dp", 3}},
                    {.global_batch = 8, .micro_batch = 1},
                    "global batch 8 is not divisible by 3 data-parallel ranks with micro-batches of 1; use a multiple of 3"},
        RefusedCase{"micro_batch",
                    2,
                    {{"dp", 2}},
                    {.global_batch = 8, .micro_batch = 3},
                    "global batch 8 is not divisible by 2 data-parallel ranks with micro-batches of 3; use a multiple of 6"},
        RefusedCase{"no_micro_batch",
                    1,
                    {{"dp", 1}},
                    {.global_batch = 8, .micro_batch = 0},
                    "a global batch of 8 with micro-batches of 0; both must be at least 1"},
        RefusedCase{"more_samples_than_counted",
                    4,
                    {{"dp", 4}},
                    {.global_batch = 8, .micro_batch = int64_t{1} << 62},
                    "exceed the range of counts"},
        RefusedCase{"more_micro_batches_than_counted",
                    1,
                    {{"dp", 1}},
                    {.global_batch = (int64_t{1} << 32) + 4, .micro_batch = 1},
                    "too many of them to count; use larger ones"},
        RefusedCase{"slots_below_ranks",
                    4,
                    {{"dp", 4}},
                    {.global_batch = 8, .micro_batch = 1, .reproducible_slots = 2},
                    "2 reproducible slots; must be a power of two that the data-parallel ranks (4) divide"},
        RefusedCase{"slots_above_micro_batches",
                    1,
                    {{"dp", 1}},
                    {.global_batch = 8, .micro_batch = 4, .reproducible_slots = 4},
                    "4 reproducible slots; must be a power of two that the data-parallel ranks (1) divide, and that divides "
                    "the micro-batches per step (2)"},
        RefusedCase{"slots_no_power_of_two",
                    3,
                    {{"dp", 3}},
                    {.global_batch = 9, .micro_batch = 1, .reproducible_slots = 3},
                    "3 reproducible slots; must be a power of two"},
        RefusedCase{"another_axis",
                    4,
                    {{"dp", 2}, {"ep", 2}},
                    {.global_batch = 8, .micro_batch = 4},
                    "mesh axis 'ep' has size 2; only pp, dp, shard, cp, tp may be above 1"},
        RefusedCase{"samples_that_are_no_sequences",
                    4,
                    {{"dp", 2}, {"cp", 2}},
                    {.global_batch = 8, .micro_batch = 4},
                    "layout.cp = 2: model 'mlp' does not read sequences that ranks can share"},
        RefusedCase{"shards_outside_replicas",
                    4,
                    {{"shard", 2}, {"dp", 2}},
                    {.global_batch = 8, .micro_batch = 2, .reproducible_slots = 4},
                    "a mesh with the axes shard, dp; outermost first, they must be in the order pp, dp, shard, cp, tp"},
        RefusedCase{"pipelines_of_neighbours",
                    4,
                    {{"dp", 2}, {"pp", 2}},
                    {.global_batch = 8, .micro_batch = 2},
                    "a mesh with the axes dp, pp; outermost first, they must be in the order pp, dp, shard, cp, tp"}),
    [](const auto& info) { return info.param.name; });

TEST(Trainer, RefusesBatchesOfAnotherSize) {
  Trainer trainer(Mesh(World(), {{"dp", 1}}), tiny_mlp(), Sgd{}, {.global_batch = 8, .micro_batch = 4});
  const std::string share = test::refusal([&] { trainer.step(slice(batch_of(0), 0, 6)); });
  EXPECT_NE(share.find("input 0 has 6 samples in a batch on rank 0, must have 8 (global batch 8 over 1 data-parallel ranks)"),
            std::string::npos)
      << share;
  EXPECT_EQ(trainer.steps_done(), 0);
  trainer.step(batch_of(0));  // refused calls have no side effects
  EXPECT_EQ(trainer.steps_done(), 1);
  const std::string micro = test::refusal([&] { trainer.step([] { return slice(batch_of(0), 0, 2); }); });
  EXPECT_NE(micro.find("input 0 has 2 samples in a micro-batch, must have 4; make the loader with trainer.loader_options()"),
            std::string::npos)
      << micro;
}

TEST(Trainer, RefusesQueriesBeforeTheStart) {
  Trainer trainer(Mesh(World(), {{"dp", 1}}), tiny_mlp(), Sgd{}, {.global_batch = 8, .micro_batch = 4});
  EXPECT_EQ(test::refusal([&] { trainer.step_times(); }),
            "trainer: step_times() before the start; call trace(true) and a step first");
  EXPECT_EQ(test::refusal([&] { trainer.loss_scale(); }),
            "trainer: loss_scale() before the start; call start() or a step first");
  trainer.trace(true);
  trainer.step(batch_of(0));
  EXPECT_EQ(trainer.step_times().size(), trainer.program().of(0).size());
  EXPECT_EQ(trainer.loss_scale().scale, 1.0);
}

TEST(Trainer, RefusesToStepAModelWithNothingToTrain) {
  torch::nn::Sequential net(torch::nn::Linear(6, 3), torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(3).affine(false)));
  for (at::Tensor& parameter : net->parameters()) parameter.requires_grad_(false);
  Trainer trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", net), Sgd{}, {.global_batch = 8, .micro_batch = 4});
  EXPECT_EQ(test::refusal([&] { trainer.step(batch_of(0)); }),
            "trainer: the model has nothing to train: all its parameters are frozen, or it has none; leave requires_grad on "
            "some before the trainer is made, or only evaluate");
}

TEST(Trainer, UsesTheOptimizersLearningRateByDefault) {
  const Mesh mesh(World(), {{"dp", 1}});
  EXPECT_EQ(Trainer(mesh, tiny_mlp(), AdamW{.lr = 0.25}, {}).learning_rate(), 0.25);
  EXPECT_EQ(Trainer(mesh, tiny_mlp(), Sgd{.lr = 0.5}, {.learning_rate = {.warmup = 5}}).learning_rate(), 0.1);
  EXPECT_EQ(Trainer(mesh, tiny_mlp(), Sgd{.lr = 0.5}, {.learning_rate = {.peak = 0.125}}).learning_rate(), 0.125);
}

/// Values by (seed, order) only, however often it is made. Starts with a module that has no parameters.
torch::nn::Sequential network(double dropout, uint64_t seed = 5) {
  torch::nn::Sequential result(torch::nn::Identity(), torch::nn::Linear(6, 10), torch::nn::BatchNorm1d(10), torch::nn::ReLU(),
                               torch::nn::Dropout(dropout), torch::nn::Linear(10, 3));
  const c10::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (at::Tensor& parameter : result->parameters())
    parameter.copy_(at::randn(parameter.sizes(), generator, at::kFloat).mul(0.3));
  return result;
}

std::vector<NamedTensor> values_of(FlatModel& model) {
  std::vector<NamedTensor> values;
  for (const Param& param : model.params()) values.push_back({param.name, param.parameter->value.detach().clone()});
  return values;
}

TEST(TorchModules, TrainAsAPlainLoopDoes) {
  constexpr double kRate = 0.1;
  torch::nn::Sequential plain = network(0.0);
  Trainer trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", network(0.0)), Sgd{.lr = kRate, .momentum = 0.0},
                  {.global_batch = kBatch, .micro_batch = kBatch});
  for (int64_t step = 0; step < 5; ++step) {
    const Batch batch = batch_of(step);
    const at::Tensor loss = cross_entropy({plain->forward(batch.inputs[0])}, batch.target).sum.div(kBatch);
    plain->zero_grad();
    loss.backward();
    {
      const c10::NoGradGuard no_grad;
      for (at::Tensor& parameter : plain->parameters()) parameter.sub_(parameter.grad(), kRate);
    }
    EXPECT_NEAR(trainer.step(batch).loss, loss.item<double>(), 1e-6) << "step " << step;
  }
  const auto parameters = plain->named_parameters();
  const auto buffers = plain->named_buffers();
  for (const auto& [name, value] : values_of(trainer.model())) {
    const at::Tensor* expected = parameters.contains(name) ? parameters.find(name) : buffers.find(name);
    ASSERT_NE(expected, nullptr) << name;
    EXPECT_TRUE(at::allclose(value, *expected, 1e-5, 1e-6)) << name;
  }
  plain->eval();
  Tensors x = batch_of(9).inputs;
  const at::Tensor expected = plain->forward(x[0]);
  for (int b = 0; b < trainer.model().num_blocks(); ++b) x = trainer.model().block(b).forward(x, {.training = false});
  EXPECT_TRUE(at::allclose(x[0], expected, 1e-5, 1e-6)) << "in evaluation";
  EXPECT_EQ(trainer.model().params().size(), parameters.size() + 2);  // and BatchNorm's two running statistics
  EXPECT_EQ(trainer.model().num_blocks(), 4);                         // Identity; Linear; BatchNorm, ReLU, Dropout; Linear
}

/// Weights after three steps of four slots, as one number.
std::string train_network(World world, double dropout) {
  const Mesh mesh(world, {{"dp", world.size()}});
  Trainer trainer(mesh, sequential_model("net", network(dropout)), AdamW{.lr = 0.01},
                  {.global_batch = kBatch, .micro_batch = 2, .reproducible_slots = 4});
  const int64_t share = kBatch / world.size();
  for (int64_t step = 0; step < 3; ++step) trainer.step(slice(batch_of(step), world.rank() * share, share));
  return weights_sha256(values_of(trainer.model()));
}

TEST(TorchModules, HaveTheSameBitsOnAnyNumberOfRanks) {
  const std::string expected = train_network(World(), 0.0);
  for (const int ranks : {1, 2, 4}) {
    test::run_ranks(ranks, [&](World world) {
      const std::string digest = train_network(world, 0.0);
      if (digest != expected) throw Error("other weights on " + std::to_string(ranks) + " ranks");
    });
  }
}

TEST(TorchModules, DropTheSameElementsOnAnyNumberOfProcesses) {
  const auto train = [](World world) { return train_network(world, 0.5); };
  const auto two = test::run_processes(2, train);
  const std::string one = train_network(World(), 0.5);
  EXPECT_NE(one, train_network(World(), 0.0));
  for (const test::ProcessResult& result : two) EXPECT_EQ(result.output, one) << result.error;
}

/// 17 samples; counts how often each was asked for.
class CountedSamples : public Dataset {
 public:
  int64_t size() const override { return 17; }
  Batch get(const std::vector<int64_t>& indices, int64_t) const override {
    for (const int64_t index : indices) ++asked[static_cast<size_t>(index)];
    const at::Tensor index = at::tensor(indices, at::kLong);
    const at::Tensor x = at::ones({1, 6}).mul(index.unsqueeze(1)).mul(0.7).sin();
    return {{x}, index.remainder(3), 0};
  }
  mutable std::array<std::atomic<int>, 17> asked{};
};

TEST(Trainer, EvaluatesEachSampleOnceOnAnyNumberOfRanks) {
  std::mutex mutex;
  std::vector<EvaluationResult> results;
  for (const int ranks : {1, 2, 3}) {
    const auto samples = std::make_shared<CountedSamples>();
    test::run_ranks(ranks, [&](World world) {
      Trainer trainer(Mesh(world, {{"dp", ranks}}), tiny_mlp(), Sgd{}, {.global_batch = 6, .micro_batch = 1});
      EvaluationLoader loader(samples, 4, world.rank(), ranks);
      trainer.evaluate(loader);
      const EvaluationResult result = trainer.evaluate(loader);  // once more, from the start
      const std::lock_guard lock(mutex);
      results.push_back(result);
    });
    for (const std::atomic<int>& asked : samples->asked) EXPECT_EQ(asked.load(), 2) << ranks << " ranks";
  }
  ASSERT_EQ(results.size(), 6u);
  for (const EvaluationResult& result : results) {
    EXPECT_EQ(result.count, 17);
    EXPECT_EQ(result.hits, results[0].hits);
    EXPECT_EQ(result.loss, results[0].loss);
  }
}

/// Six numbers to predict; or one, which would be taken for the only class.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t width) : width_(width) {}
  int64_t size() const override { return 5; }
  Batch get(const std::vector<int64_t>& indices, int64_t) const override {
    const auto count = static_cast<int64_t>(indices.size());
    return {{at::ones({count, 6})}, at::zeros({count, width_}), 0};
  }

 private:
  int64_t width_;
};

TEST(Trainer, CountsHitsOfALossOfClassesAlone) {
  const auto squares = [](const Tensors& outputs, const at::Tensor& target) -> LossValue {
    return {(outputs.front() - target).square().sum(), target.numel()};
  };
  for (const int64_t width : {1, 6}) {
    const auto sequence = [width] { return torch::nn::Sequential(torch::nn::Linear(6, width)); };
    for (const Model& model :
         {sequential_model("net", sequence(), squares), module_model("net", torch::nn::Linear(6, width), squares)}) {
      EXPECT_FALSE(model.hits) << "no accuracy is reported";
      Trainer trainer(Mesh(World(), {{"dp", 1}}), model, Sgd{}, {.global_batch = 6, .micro_batch = 6});
      EvaluationLoader loader(std::make_shared<Numbers>(width), 4, 0, 1);
      EXPECT_EQ(trainer.evaluate(loader).count, 5 * width);
    }
    EXPECT_TRUE(sequential_model("net", sequence()).hits);
    EXPECT_TRUE(sequential_model("net", sequence(), smoothed_cross_entropy(0.1)).hits);
  }
}

TEST(Trainer, TakesGivenWeightsFromRankZero) {
  std::mutex mutex;
  std::vector<std::string> digests;
  test::run_ranks(3, [&](World world) {
    const auto seed = static_cast<uint64_t>(world.rank()) + 5;
    Trainer trainer(Mesh(world, {{"dp", 3}}), sequential_model("net", network(0.0, seed)), Sgd{},
                    {.global_batch = 3, .micro_batch = 1});
    trainer.start();
    const std::lock_guard lock(mutex);
    digests.push_back(weights_sha256(values_of(trainer.model())));
  });
  Trainer alone(Mesh(World(), {{"dp", 1}}), sequential_model("net", network(0.0, 5)), Sgd{}, {});
  EXPECT_EQ(digests, std::vector<std::string>(3, weights_sha256(values_of(alone.model()))));
}

TEST(Trainer, ALossThatIsNotFiniteOnOneRankEndsAllOfThem) {
  const auto start = std::chrono::steady_clock::now();
  std::mutex mutex;
  int numeric = 0, other = 0;
  test::run_ranks(2,
                  [&](World world) {
                    Trainer trainer(Mesh(world, {{"dp", 2}}), tiny_mlp(), Sgd{}, {.global_batch = kBatch, .micro_batch = 2});
                    for (int64_t step = 0; step < 3; ++step) {
                      Batch batch = slice(batch_of(step), world.rank() * 4, 4);
                      if (step == 1 && world.rank() == 1) batch.inputs[0][2][0] = std::numeric_limits<float>::infinity();
                      try {
                        trainer.step(batch);
                      } catch (const Error& error) {
                        const std::lock_guard lock(mutex);
                        if (world.rank() == 0) ++other;
                        if (world.rank() == 1) {
                          EXPECT_NE(std::string(error.what()).find("step 2, micro-batch 3: "), std::string::npos)
                              << error.what();
                          ++numeric;
                        }
                        return;
                      }
                    }
                  },
                  {.timeout = std::chrono::seconds(30)});
  EXPECT_EQ(numeric, 1);
  EXPECT_EQ(other, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace weft::trainer_test
