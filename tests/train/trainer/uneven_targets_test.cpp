// Micro-batches of different numbers of targets, as where each is padded to its own longest sample: the mean is over all
// targets of the global batch (law 4), whatever micro-batch, rank or step they are in.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <map>

#include "tests/support/run_ranks.h"
#include "weft/data/dataset.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::uneven_targets_test {
namespace {

constexpr int kSteps = 5;
constexpr int64_t kMicroBatches = 8, kMicroBatch = 2;
constexpr double kRate = 0.2;

torch::nn::Sequential network() {
  torch::nn::Sequential result(torch::nn::Linear(6, 10), torch::nn::Tanh(), torch::nn::Linear(10, 10), torch::nn::Tanh(),
                               torch::nn::Linear(10, 10), torch::nn::Linear(10, 3));
  const c10::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(5);
  for (at::Tensor& parameter : result->parameters()) parameter.normal_(0.0, 0.4, generator);
  return result;
}

/// Any number of targets a sample: logits [samples, 3] against each column of [samples, targets].
LossValue loss(const Tensors& outputs, const at::Tensor& target) {
  return cross_entropy({outputs[0].unsqueeze(1).expand({target.size(0), target.size(1), 3})}, target);
}

/// One to nine targets per sample, the fewest in the first step's first micro-batch; some do not count.
Batch micro_batch(int64_t step, int64_t micro) {
  constexpr std::array kTargets = {1, 9, 3, 2, 6};
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(100 * step + micro));
  at::Tensor target = at::randint(3, {kMicroBatch, kTargets[static_cast<size_t>(3 * step + micro) % 5]}, generator, at::kLong);
  if (micro == 4) target[0].fill_(kIgnore);
  return {{at::randn({kMicroBatch, 6}, generator, at::kFloat)}, target, (step * kMicroBatches + micro) * kMicroBatch};
}

struct Result {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> weights;
};

/// One device, plain LibTorch: one graph, total sum over total count.
Result plain() {
  Result result;
  torch::nn::Sequential net = network();
  for (int64_t step = 0; step < kSteps; ++step) {
    at::Tensor sum = at::zeros({});
    double count = 0.0;
    for (int64_t j = 0; j < kMicroBatches; ++j) {
      const Batch batch = micro_batch(step, j);
      const LossValue value = loss({net->forward(batch.inputs[0])}, batch.target);
      sum = sum.add(value.sum);
      count += static_cast<double>(value.count);
    }
    const at::Tensor mean = sum.div(count);
    net->zero_grad();
    mean.backward();
    const c10::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter.sub_(parameter.grad(), kRate);
    result.losses.push_back(mean.item<double>());
  }
  for (const auto& parameter : net->named_parameters()) result.weights[parameter.key()] = parameter.value().detach();
  return result;
}

struct Case {
  const char* name;
  int pp = 1, dp = 1, shard = 1;
  TrainerOptions options = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Rank 0's result.
Result train(const Case& c) {
  Result result;
  test::run_ranks(c.pp * c.dp * c.shard, [&](World world) {
    const Mesh mesh(world, {{"pp", c.pp}, {"dp", c.dp}, {"shard", c.shard}});
    Model model = sequential_model("net", network());
    model.loss = loss;
    TrainerOptions options = c.options;
    options.global_batch = kMicroBatches * kMicroBatch;
    options.micro_batch = kMicroBatch;
    Trainer trainer(mesh, std::move(model), Sgd{.lr = kRate, .momentum = 0.0}, options);
    const int64_t share = kMicroBatches / (c.dp * c.shard), first = mesh.join({"dp", "shard"}).index * share;
    Result mine;
    for (int64_t step = 0; step < kSteps; ++step) {
      mine.losses.push_back(trainer.step([&, j = first]() mutable { return micro_batch(step, j++); }).loss);
    }
    trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) { mine.weights[name] = value.clone(); });
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

class UnevenTargets : public ::testing::TestWithParam<Case> {};

TEST_P(UnevenTargets, CountEachTheSame) {
  const Result expected = plain(), actual = train(GetParam());
  for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(actual.losses[step], expected.losses[step], 1e-5) << "step " << step;
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  for (const auto& [name, value] : expected.weights) {
    EXPECT_TRUE(at::allclose(actual.weights.at(name), value, 1e-4, 1e-6))
        << name << ": largest difference " << actual.weights.at(name).sub(value).abs().max().item<double>();
  }
}

TEST_P(UnevenTargets, HaveTheSameBits) {
  Case c = GetParam();
  c.options.reproducible_slots = 4;
  const Result expected = train({.name = "one", .options = {.reproducible_slots = 4}}), actual = train(c);
  EXPECT_EQ(actual.losses, expected.losses);
  for (const auto& [name, value] : expected.weights) EXPECT_TRUE(at::equal(actual.weights.at(name), value)) << name;
}

LayoutOptions level(ShardLevel shard_level) { return {.shard_level = shard_level}; }
LayoutOptions schedule(const char* name) { return {.pipeline = {.schedule = name}}; }

INSTANTIATE_TEST_SUITE_P(Layouts, UnevenTargets,
                         ::testing::Values(Case{"one"}, Case{"dp_2", 1, 2}, Case{"dp_4", 1, 4},
                                           Case{"zero3", 1, 1, 4, {.layout = level(ShardLevel::parameters)}},
                                           Case{"one_f_one_b", 2, 1, 1, {.layout = schedule("1f1b")}},
                                           Case{"zb_h1_of_two", 2, 2, 1, {.layout = schedule("zb-h1")}},
                                           Case{"interleaved_gathering",
                                                2,
                                                1,
                                                2,
                                                {.layout = {.pipeline = {.schedule = "interleaved"},
                                                            .shard_level = ShardLevel::parameters}}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::uneven_targets_test
