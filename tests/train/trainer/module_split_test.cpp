// Models of torch::nn modules and of convolutions, split over tp by tables: parity (law 1), and errors.
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>

#include <functional>
#include <map>

#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/models/vision.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/modules/module_block.h"

namespace weft::module_split_test {
namespace {

using torch::nn::Sequential;
using Torch = torch::nn::Linear;
using TorchConv = torch::nn::Conv2d;

constexpr int64_t kBatch = 16;
constexpr int kSteps = 3;
constexpr SplitKind kColumns = SplitKind::columns, kRows = SplitKind::rows, kVocabulary = SplitKind::vocabulary;

Batch images(int64_t step) {
  const auto generator = [step](uint64_t key) { return at::detail::createCPUGenerator(static_cast<uint64_t>(step) + key); };
  return {{at::randn({kBatch, 1, 8, 8}, generator(1), at::kFloat)},
          at::randint(10, {kBatch}, generator(7), at::kLong),
          step * kBatch};
}

Batch tokens(int64_t step) {
  const at::Tensor ids =
      at::randint(13, {kBatch, 9}, at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 7), at::kLong);
  return {{ids.narrow(1, 0, 8).contiguous()}, ids.narrow(1, 1, 8).contiguous(), step * kBatch};
}

/// Values not drawn by torch, whose single generator thread ranks would share.
Model chain(const Sequential& modules, SplitTable splits, uint64_t seed = 3) {
  const c10::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(seed);
  for (at::Tensor& parameter : modules->parameters()) parameter.uniform_(-0.3, 0.3, generator);
  Model model = sequential_model("net", modules);
  model.splits = std::move(splits);
  return model;
}

Model perceptron(SplitTable splits, uint64_t seed = 3) {
  return chain(Sequential(torch::nn::Flatten(), Torch(64, 32), torch::nn::ReLU(), Torch(32, 10)), std::move(splits), seed);
}

const SplitTable kPair = {{.layer = "1", .kind = kColumns}, {.layer = "3", .kind = kRows}};

Model pair() { return perceptron(kPair); }
/// Ten classes do not fall into four parts.
Model joined() {
  return perceptron({{.layer = "1", .kind = kColumns, .joined = true}, {.layer = "3", .kind = kVocabulary, .joined = true}});
}
/// The second layer takes its part of whole rows.
Model rows_alone() { return perceptron({{.layer = "3", .kind = kRows}}); }

Model embedded() {
  return chain(Sequential(torch::nn::Embedding(13, 8), Torch(8, 16), torch::nn::Tanh(), Torch(16, 8), Torch(8, 13)),
               {{.layer = "0", .kind = kVocabulary},
                {.layer = "1", .kind = kColumns},
                {.layer = "3", .kind = kRows},
                {.layer = "4", .kind = kVocabulary, .joined = true}});
}

/// Whose logits stay apart.
Model vocabulary() {
  Model model = chain(Sequential(torch::nn::Embedding(13, 8), Torch(8, 13)),
                      {{.layer = "0", .kind = kVocabulary}, {.layer = "1", .kind = kVocabulary}});
  model.loss = vocabulary_cross_entropy(13);
  model.hits = vocabulary_hits(13);
  return model;
}

torch::nn::Conv2dOptions filter(int64_t in, int64_t out) { return torch::nn::Conv2dOptions(in, out, 3).padding(1); }

Model convolutions() {
  return chain(Sequential(TorchConv(filter(1, 4)), torch::nn::BatchNorm2d(4), torch::nn::ReLU(),
                          TorchConv(filter(4, 8).stride(2).dilation(2)), torch::nn::ReLU(), TorchConv(filter(8, 8).bias(false)),
                          TorchConv(filter(8, 4)), torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2)), torch::nn::Flatten(),
                          Torch(4, 10)),
               {{.layer = "0", .kind = kColumns, .joined = true},
                {.layer = "3", .kind = kColumns},
                {.layer = "5", .kind = kRows},
                {.layer = "6", .kind = kColumns},
                {.layer = "9", .kind = kRows}});
}

/// Two of weft's convolutions, and the mean of each channel.
class ConvolutionPair : public Block {
 public:
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {second_(at::relu(first_(inputs.front(), context)), context).mean({2, 3})};
  }
  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    first_.describe(specs, "first");
    second_.describe(specs, "second");
    return specs;
  }
  bool can_split_backward() const override { return true; }

 private:
  Conv2d first_{1, 8, 3}, second_{8, 10, 3};
};

Model convolution_pair() {
  return {.name = "pair",
          .blocks = {{"pair", "", std::make_shared<ConvolutionPair>()}},
          .loss = cross_entropy,
          .splits = {{.layer = "first", .kind = kColumns}, {.layer = "second", .kind = kRows}}};
}

struct Layout {
  const char* name;
  int ranks = 1, pp = 1, tp = 1;
  Spread spread = Spread::dp;
  ShardLevel level = ShardLevel::none;
};

const std::vector<Layout> kLayouts = {
    {.name = "tp2", .ranks = 2, .tp = 2},
    {.name = "tp4", .ranks = 4, .tp = 4},
    {.name = "dp2_tp2", .ranks = 4, .tp = 2},
    {.name = "parameters2_tp2", .ranks = 4, .tp = 2, .spread = Spread::shard, .level = ShardLevel::parameters},
};

Strategy strategy_of(const Layout& layout) {
  Strategy strategy{
      .name = layout.name, .micro_batch = 2, .clip = 0.05, .spread = layout.spread, .pp = layout.pp, .tp = layout.tp};
  strategy.layout.shard_level = layout.level;
  return strategy;
}

using Case = std::tuple<Layout, Job>;
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
}

class BlockSplitParityTest : public ::testing::TestWithParam<Case> {};

TEST_P(BlockSplitParityTest, EqualsOneDevice) {
  const auto& [layout, job] = GetParam();
  expect_parity(job, strategy_of(layout), layout.ranks, kSteps);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BlockSplitParityTest,
    ::testing::Combine(
        ::testing::ValuesIn(kLayouts),
        ::testing::Values(Job{"cnn", [] { return cnn({.size = 8, .width = 4}); }, images, kBatch},
                          Job{"mlp", [] { return mlp({.inputs = 64, .width = 24, .layers = 2}); }, images, kBatch},
                          Job{"odd_mlp", [] { return mlp({.inputs = 64, .width = 24, .layers = 1}); }, images, kBatch},
                          Job{"convolution_pair", convolution_pair, images, kBatch})),
    name_of);

void expect_close(const Trained& actual, const Trained& expected) {
  for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(actual.losses[step], expected.losses[step], 2e-5) << "step " << step;
  ASSERT_EQ(actual.values.size(), expected.values.size());
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const auto& [name, value] = expected.values[i];
    EXPECT_EQ(actual.values[i].first, name);
    EXPECT_TRUE(at::allclose(actual.values[i].second, value, 1e-4, 2e-6)) << name;
  }
}

class ModuleSplitParityTest : public ::testing::TestWithParam<Case> {};

/// One rank, which trains as a plain loop does (trainer_test.cpp).
TEST_P(ModuleSplitParityTest, EqualsOneRank) {
  const auto& [layout, job] = GetParam();
  const Strategy strategy = strategy_of(layout);
  const Trained expected = train_ranks(job, strategy_of({.name = "one"}), 1, sgd_of(strategy), kSteps);
  expect_close(train_ranks(job, strategy, layout.ranks, sgd_of(strategy), kSteps), expected);
}

INSTANTIATE_TEST_SUITE_P(Table, ModuleSplitParityTest,
                         ::testing::Combine(::testing::ValuesIn(kLayouts),
                                            ::testing::Values(Job{"pair", pair, images, kBatch},
                                                              Job{"joined", joined, images, kBatch},
                                                              Job{"rows_alone", rows_alone, images, kBatch},
                                                              Job{"embedded", embedded, tokens, kBatch},
                                                              Job{"vocabulary", vocabulary, tokens, kBatch},
                                                              Job{"convolutions", convolutions, images, kBatch})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Pipeline, ModuleSplitParityTest,
                         ::testing::Combine(::testing::Values(Layout{.name = "pp2_tp2", .ranks = 4, .pp = 2, .tp = 2}),
                                            ::testing::Values(Job{"embedded", embedded, tokens, kBatch})),
                         name_of);

/// Every rank keeps its part of the values that rank 0 made.
TEST(ModuleSplit, TakesPartsOfTheGivenValuesOfRankZero) {
  const Model made = perceptron(kPair, 1);
  std::map<std::string, at::Tensor> expected;
  for (const NamedBlock& named : made.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) expected[spec.name] = spec.parameter->value.detach();
  }
  for (const int ranks : {1, 2, 4}) {
    test::run_ranks(ranks, [&](const World& world) {
      const Model model = perceptron(kPair, static_cast<uint64_t>(world.rank()) + 1);
      Trainer trainer(Mesh(world, {{"dp", 1}, {"tp", ranks}}), model, Sgd{.lr = 0.0},
                      {.global_batch = kBatch, .micro_batch = 4});
      trainer.step(images(0));
      EXPECT_EQ(model.blocks[1].block->parameters()[0].parameter->value.size(0), 32 / ranks);
      size_t count = 0;
      trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) {
        EXPECT_TRUE(at::equal(value, expected.at(name))) << name << ", " << ranks << " ranks";
        ++count;
      });
      EXPECT_EQ(count, expected.size());
    });
  }
}

struct NetImpl : torch::nn::Module {
  NetImpl() { register_module("fc", fc); }
  at::Tensor forward(const at::Tensor& x) { return fc->forward(x); }
  Torch fc{8, 8};
};
TORCH_MODULE(Net);

/// A linear layer that is none.
struct DoubledImpl : torch::nn::LinearImpl {
  DoubledImpl() : LinearImpl(8, 8) {}
  at::Tensor forward(const at::Tensor& x) { return torch::nn::LinearImpl::forward(x).mul(2); }
};
TORCH_MODULE(Doubled);

struct Refused {
  const char* name;
  std::function<Model()> model;
  const char* says;
  int tp = 2;
};

std::ostream& operator<<(std::ostream& out, const Refused& refused) { return out << refused.name; }

class ModuleSplitRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(ModuleSplitRefuses, BeforeAnythingIsAllocated) {
  const Refused& c = GetParam();
  const Mesh mesh(World::threads(c.tp)[0], {{"dp", 1}, {"tp", c.tp}});
  const std::string error = test::refusal([&] { Trainer(mesh, c.model(), Sgd{}, {.global_batch = 4, .micro_batch = 4}); });
  EXPECT_NE(error.find(c.says), std::string::npos) << "it said: " << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

/// A chain of one more layer after a split one.
template <class Module>
std::function<Model()> after_linear(const Module& module, const SplitTable& more = {}) {
  return [=] {
    SplitTable table = {{.layer = "0", .kind = kColumns}};
    table.insert(table.end(), more.begin(), more.end());
    return chain(Sequential(Torch(8, 12), module, Torch(12, 8)), table);
  };
}

template <class Module>
std::function<Model()> alone(const Module& module, const std::string& layer, const SplitKind kind = kColumns) {
  return
      [=] { return chain(Sequential(module, torch::nn::ReLU()), {{.layer = layer, .kind = kind, .joined = kind != kRows}}); };
}

template <class Module>
std::function<Model()> after_convolution(const Module& module, const SplitTable& more = {}) {
  return [=] {
    SplitTable table = {{.layer = "0", .kind = kColumns}};
    table.insert(table.end(), more.begin(), more.end());
    return chain(Sequential(TorchConv(filter(1, 4)), module), table);
  };
}

std::function<Model()> with(const SplitTable& table) {
  return [table] { return perceptron(table); };
}

INSTANTIATE_TEST_SUITE_P(
    Tables, ModuleSplitRefuses,
    ::testing::Values(
        Refused{"no_table", with({}), "layout.tp = 2: model 'net' has no layers that ranks share"},
        Refused{"no_layer", with({{.layer = "7"}}), "layer 7: its split table has a rule for it, but no layer of that name"},
        Refused{"two_rules", with({{.layer = "1"}, {.layer = "*"}}), "layer 1: two rules of the split table match it"},
        Refused{"segments", with({{.layer = "1", .segments = {16, 14}}}),
                "layer 1: its rule has segments of 30 positions in all; dim 0 has 32"},
        Refused{"ranks", with(kPair), "layer 1: layout.tp = 3 does not divide its 32 outputs; tp may be 1, 2, 4, 8, 16, 32",
                3}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Modules, ModuleSplitRefuses,
    ::testing::Values(
        Refused{"batch_norm", alone(torch::nn::BatchNorm1d(8), "0"), "layer 0: its weight has 1 dim, like a norm's"},
        Refused{"lstm", alone(torch::nn::LSTM(8, 8), "0"), "layer 0: its split table has a rule for it, but it has no weight"},
        Refused{"one_dimension", alone(torch::nn::Conv1d(8, 8, 3), "0"), "but torch::nn::Conv1d cannot be split"},
        Refused{"own_module", alone(Net(), "0.fc"), "layer 0: its split table has a rule for 0.fc, but"},
        Refused{"derived_class", alone(Doubled(), "0"), "Doubled cannot be split"},
        Refused{"one_module",
                [] {
                  Model model = module_model("net", Net());
                  model.splits = {{.layer = "fc"}};
                  return model;
                },
                "block 'net', layer fc: it is inside a torch module that runs as a unit, whose layers cannot be split"},
        Refused{"groups", alone(TorchConv(filter(4, 4).groups(2)), "0"), "layer 0: a grouped convolution cannot be split"},
        Refused{"padding", alone(TorchConv(filter(4, 4).padding_mode(torch::kReflect)), "0"), "only convolutions with zero"},
        Refused{"padding_idx", alone(torch::nn::Embedding(torch::nn::EmbeddingOptions(8, 8).padding_idx(0)), "0", kVocabulary),
                "layer 0: an embedding with padding_idx"},
        Refused{"embedding_rows", alone(torch::nn::Embedding(8, 8), "0", kRows), "only by its vocabulary"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Parts, ModuleSplitRefuses,
    ::testing::Values(
        Refused{"whole_layer", after_linear(torch::nn::ReLU()),
                "block 'net.2', layer 2: torch::nn::Linear needs its whole input, but each rank has a part of the output of "
                "layer 0"},
        Refused{"columns", after_linear(torch::nn::ReLU(), {{.layer = "2", .joined = true}}),
                "layer 2: split by columns, it needs its whole input, but each rank has a part of the output of layer 0"},
        Refused{"softmax", after_linear(torch::nn::Softmax(1), {{.layer = "2", .kind = kRows}}),
                "layer 1: torch::nn::Softmax needs its whole input"},
        Refused{"dropout", after_linear(torch::nn::Dropout(), {{.layer = "2", .kind = kRows}}),
                "layer 1: torch::nn::Dropout needs its whole input"},
        Refused{"batch_norm", after_convolution(torch::nn::BatchNorm2d(4)),
                "layer 1: torch::nn::BatchNorm2d needs its whole input"},
        Refused{"pool_of_rows",
                after_linear(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2)), {{.layer = "2", .kind = kRows}}),
                "layer 1: torch::nn::MaxPool2d needs its whole input"},
        Refused{"another_dim", after_convolution(Torch(8, 8), {{.layer = "1", .kind = kRows}}),
                "layer 1: each rank has a part of the output of layer 0, along a dim other than its rows"},
        Refused{"other_segments",
                [] {
                  return chain(Sequential(Torch(8, 12), torch::nn::ReLU(), Torch(12, 8)),
                               {{.layer = "0", .segments = {6, 6}}, {.layer = "2", .kind = kRows}});
                },
                "layer 2: each rank has a part of the output of layer 0, which are not the parts of its rows"},
        Refused{"padded",
                [] {
                  return chain(Sequential(Torch(8, 11), torch::nn::ReLU(), Torch(11, 8)),
                               {{.layer = "0", .kind = kVocabulary}, {.layer = "2", .kind = kRows}});
                },
                "layout.tp = 2 does not divide its 11 inputs; tp may be 1, 11"},
        Refused{"loss", with({{.layer = "3", .kind = kVocabulary}}),
                "layer 3: each rank has a part of its output, but the model's loss and hits need the whole"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::module_split_test
