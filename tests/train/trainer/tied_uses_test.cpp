// Weights read by several blocks: with reproducible slots each use has a separate sum, so the bits equal one device's wherever
// the uses are.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "tests/train/jobs.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft::tied_uses_test {
namespace {

constexpr int kSteps = 3;
constexpr int64_t kBatch = 16, kWidth = 8;

/// tanh(x w), w its own.
class Owner : public Block {
 public:
  Tensors forward(const Tensors& inputs, const Context& /*context*/) override {
    return {inputs[0].matmul(weight.value).tanh()};
  }
  std::vector<ParamSpec> parameters() override {
    return {{.name = "weight", .parameter = &weight, .init = {.kind = Init::Kind::normal, .a = 0.0, .b = 0.4}}};
  }
  Parameter weight{at::empty({kWidth, kWidth}, at::TensorOptions(at::kFloat).device(at::kMeta)), {}};
};

/// x + tanh(x w^T) s, w another block's.
class User : public Block {
 public:
  explicit User(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {}
  Tensors forward(const Tensors& inputs, const Context& /*context*/) override {
    return {inputs[0] + inputs[0].matmul(owner_->weight.value.t()).tanh() * scale_.value};
  }
  std::vector<ParamSpec> parameters() override {
    return {{.name = "scale", .parameter = &scale_, .init = {.kind = Init::Kind::constant, .a = 0.5}, .decay = false}};
  }

 private:
  std::shared_ptr<Owner> owner_;
  Parameter scale_{at::empty({kWidth}, at::TensorOptions(at::kFloat).device(at::kMeta)), {}};
};

/// Eight blocks, of which the first, the fourth, the sixth and the last read the second's weights: five uses.
Model many_uses() {
  const auto owner = std::make_shared<Owner>();
  Model model{.name = "uses", .blocks = {}, .loss = cross_entropy, .hits = count_hits};
  for (int b = 0; b < 8; ++b) {
    const std::string name = std::to_string(b);
    if (b == 1) {
      model.blocks.push_back({name, name, owner});
    } else if (b == 0 || b == 3 || b == 5 || b == 7) {
      model.blocks.push_back({name, name, std::make_shared<User>(owner), {1}});
    } else {
      model.blocks.push_back({name, name, std::make_shared<Owner>()});
    }
  }
  return model;
}

const Job& many() {
  static const Job job{"many_uses", many_uses,
                       [](int64_t step) {
                         const auto generator = [step](uint64_t key) {
                           return at::detail::createCPUGenerator(static_cast<uint64_t>(step) * 2 + key);
                         };
                         return Batch{{at::randn({kBatch, kWidth}, generator(1), at::kFloat)},
                                      at::randint(kWidth, {kBatch}, generator(2), at::kLong),
                                      step * kBatch};
                       },
                       kBatch};
  return job;
}

struct Layout {
  const char* name;
  int ranks;
  int pp = 1;
  std::vector<int> cut = {};
  Spread spread = Spread::dp;
  LayoutOptions options = {};
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {.name = "dp2", .ranks = 2},
      {.name = "zero1", .ranks = 2, .spread = Spread::shard, .options = {.shard_level = ShardLevel::optimizer}},
      {.name = "zero2", .ranks = 2, .spread = Spread::shard, .options = {.shard_level = ShardLevel::gradients}},
      {.name = "zero3", .ranks = 4, .spread = Spread::shard, .options = {.shard_level = ShardLevel::parameters}},
      {.name = "hybrid", .ranks = 4, .spread = Spread::hybrid, .options = {.shard_level = ShardLevel::gradients}},
      {.name = "recompute",
       .ranks = 1,
       .options = {.recompute_every = 1, .offload_optimizer = Offload::host, .offload_activations = Offload::host}},
      {.name = "pp2", .ranks = 2, .pp = 2},
      {.name = "pp2_uses_4_and_1", .ranks = 2, .pp = 2, .cut = {0, 6}},
      {.name = "pp2_uses_1_and_4", .ranks = 2, .pp = 2, .cut = {0, 1}},
      {.name = "pp4_zb_h1", .ranks = 4, .pp = 4, .options = {.pipeline = {.schedule = "zb-h1"}}},
      {.name = "pp2_zero2",
       .ranks = 4,
       .pp = 2,
       .spread = Spread::shard,
       .options = {.shard_level = ShardLevel::gradients, .recompute_every = 1}},
      {.name = "pp2_zero3",
       .ranks = 4,
       .pp = 2,
       .spread = Spread::shard,
       .options = {.pipeline = {.schedule = "gpipe"}, .shard_level = ShardLevel::parameters}},
      {.name = "pp2_interleaved_dp2", .ranks = 4, .pp = 2, .options = {.pipeline = {.schedule = "interleaved"}}},
  };
  return all;
}

Strategy strategy_of(const Layout& layout, const OptimizerOptions& /*optimizer*/ = AdamW{}) {
  Strategy strategy{.name = layout.name, .micro_batch = 2, .slots = 4, .clip = 0.5, .spread = layout.spread, .pp = layout.pp};
  strategy.layout = layout.options;
  if (!layout.cut.empty()) strategy.layout.pipeline.first_block = layout.cut;
  return strategy;
}

class TiedUsesTest : public ::testing::TestWithParam<Layout> {};

TEST_P(TiedUsesTest, HaveTheBitsOfOneDevice) {
  const Layout& layout = GetParam();
  for (const Job* job : {&many(), &weft::job("deep_tied_gpt")}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      Strategy alone = strategy_of({.name = "alone", .ranks = 1}), strategy = strategy_of(layout);
      alone.layout.precision = strategy.layout.precision = precision;
      expect_equal(train_ranks(*job, strategy, layout.ranks, AdamW{}, kSteps), train_ranks(*job, alone, 1, AdamW{}, kSteps),
                   std::string(job->name) + " in " + std::string(name(precision)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, TiedUsesTest, ::testing::ValuesIn(layouts()),
                         [](const auto& info) { return std::string(info.param.name); });

/// Both stages of rank 0 hold them; with a slot a rank nothing mixes.
TEST(TiedUses, InTwoStagesOfARank) {
  const Layout layout{.name = "zb_v", .ranks = 8, .pp = 2, .options = {.pipeline = {.schedule = "zb-v"}}};
  for (const Job* job : {&many(), &weft::job("deep_tied_gpt")}) {
    expect_equal(train_ranks(*job, strategy_of(layout), layout.ranks, AdamW{}, kSteps),
                 train_ranks(*job, strategy_of({.name = "alone", .ranks = 1}), 1, AdamW{}, kSteps), job->name);
  }
}

TEST(TiedUses, AreAsOneDeviceInPlainLibTorch) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.name);
    if (layout.ranks <= 2) expect_parity(many(), strategy_of(layout), layout.ranks, kSteps);
  }
}

}  // namespace
}  // namespace weft::tied_uses_test
