// Initial values of modules: those of the world's rank 0 are used in any mesh, so that training matches one device.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <string>

#include "tests/support/run_ranks.h"
#include "tests/train/reference.h"
#include "tests/train/weights_of.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::given_weights_test {
namespace {

constexpr int64_t kBatch = 16, kMicroBatch = 4, kWidth = 6;
constexpr int kBlocks = 5;

/// Linear layers, the last of which reads the first one's weights too; every number depends on `seed`.
Model network(uint64_t seed) {
  const c10::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  Model model{.name = "net", .blocks = {}, .loss = cross_entropy, .hits = count_hits};
  torch::nn::Linear first{nullptr};
  for (int b = 0; b < kBlocks; ++b) {
    torch::nn::Linear layer(kWidth, kWidth);
    torch::nn::BatchNorm1d norm(kWidth);
    const auto holder = std::make_shared<torch::nn::Module>();
    holder->register_module("layer", layer.ptr());
    holder->register_module("norm", norm.ptr());
    for (at::Tensor& value : holder->parameters()) value.normal_(0.0, 0.4, generator);
    norm->running_mean.normal_(0.0, 0.1, generator);
    norm->running_var.uniform_(0.5, 1.5, generator);
    if (b == 0) first = layer;
    const bool is_tied = b + 1 == kBlocks;
    const auto run = [layer, norm, first, is_tied](const Tensors& in) mutable -> Tensors {
      const at::Tensor x = norm->forward(layer->forward(in.front())).tanh();
      return {is_tied ? x.matmul(first->weight) : x};
    };
    const std::string name = "b" + std::to_string(b);
    model.blocks.push_back({name, name, module_block(name, holder, run)});
    if (is_tied) model.blocks.back().uses = {0};
  }
  return model;
}

Batch batch_of(int64_t step) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const at::Tensor x = at::randn({kBatch, kWidth}, generator, at::kFloat);
  return {{x}, at::randint(kWidth, {kBatch}, generator, at::kLong)};
}

struct Case {
  const char* name;
  int pp = 1, dp = 1, shard = 1;
  LayoutOptions layout = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

using test::Weights;
using test::weights_of;

struct Result {
  Weights before, after;
};

/// Every rank seeds its modules differently; each rank's weights before and after three steps.
std::vector<Result> train(const Case& c) {
  std::vector<Result> results(static_cast<size_t>(c.pp * c.dp * c.shard));
  test::run_ranks(c.pp * c.dp * c.shard, [&](World world) {
    const Mesh mesh(world, {{"pp", c.pp}, {"dp", c.dp}, {"shard", c.shard}});
    Trainer trainer(mesh, network(static_cast<uint64_t>(world.rank()) + 3), Sgd{.lr = 0.1, .momentum = 0.0},
                    {.global_batch = kBatch, .micro_batch = kMicroBatch, .layout = c.layout});
    Result& mine = results[static_cast<size_t>(world.rank())];
    mine.before = weights_of(trainer);
    const Axis data = mesh.join({"dp", "shard"});
    const int64_t share = kBatch / data.size();
    for (int64_t step = 0; step < 3; ++step) trainer.step(slice(batch_of(step), data.index * share, share));
    mine.after = weights_of(trainer);
  });
  return results;
}

double distance(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item<double>(); }

class GivenWeights : public ::testing::TestWithParam<Case> {};

TEST_P(GivenWeights, AreThoseOfTheWorldsFirstRank) {
  const Result expected = train({"one"})[0];
  for (const Result& result : train(GetParam())) {
    ASSERT_EQ(result.before.size(), expected.before.size());
    for (const auto& [name, value] : expected.before) EXPECT_TRUE(at::equal(result.before.at(name), value)) << name;
    for (const auto& [name, value] : expected.after) EXPECT_LT(distance(result.after.at(name), value), 1e-4) << name;
  }
}

LayoutOptions level(ShardLevel shard_level) { return {.shard_level = shard_level}; }

INSTANTIATE_TEST_SUITE_P(Meshes, GivenWeights,
                         ::testing::Values(Case{"dp", 1, 4}, Case{"shard", 1, 1, 4, level(ShardLevel::parameters)},
                                           Case{"pp", 4}, Case{"pp_dp", 2, 2},
                                           Case{"pp_shard", 2, 1, 2, level(ShardLevel::gradients)},
                                           Case{"pp_zero3", 2, 1, 2, level(ShardLevel::parameters)},
                                           Case{"two_stages_a_rank", 2, 2, 1, {.pipeline = {.schedule = "zb-v"}}}),
                         [](const auto& info) { return std::string(info.param.name); });

/// The two ranks that hold tied weights each have a copy; for_each_weight() visits one of them.
TEST(GivenWeights, TiedOnesOfTwoStagesAreTheSame) {
  std::vector<at::Tensor> copies(2);
  test::run_ranks(2, [&](World world) {
    Trainer trainer(Mesh(world, {{"pp", 2}}), network(static_cast<uint64_t>(world.rank()) + 3), Sgd{.lr = 0.1},
                    {.global_batch = kBatch, .micro_batch = kMicroBatch});
    for (int64_t step = 0; step < 3; ++step) trainer.step(batch_of(step));
    copies[static_cast<size_t>(world.rank())] = trainer.model().flat(0).weights.clone();
  });
  EXPECT_TRUE(at::equal(copies[0], copies[1])) << distance(copies[0], copies[1]);
}

}  // namespace
}  // namespace weft::given_weights_test
