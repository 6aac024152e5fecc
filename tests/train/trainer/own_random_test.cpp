// Custom blocks and losses that draw from LibTorch's default generator, in forward and in backward: the same numbers for the
// same samples in every layout, without affecting the caller's draws.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "weft/checkpoint/digest.h"
#include "weft/nn/functional/recompute.h"
#include "weft/nn/layers/dropout.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::own_random_test {
namespace {

constexpr int64_t kBatch = 8, kWidth = 4;

/// Adds noise to the gradient.
struct NoisyGradient : torch::autograd::Function<NoisyGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients.front() * (1.0 + 0.1 * at::rand_like(gradients.front()))};
  }
};

/// x * w with some elements dropped, in evaluations too; part of it may be recomputed.
class Dropping : public Block {
 public:
  explicit Dropping(bool again = false) : again_(again) { weight_.value = at::ones({kWidth}); }
  Tensors forward(const Tensors& inputs, const Context&) override {
    const at::Tensor x = inputs.front() * weight_.value;
    const at::Tensor mask = at::bernoulli(at::full(x.sizes(), 0.5));
    const auto part = [](const at::Tensor& y) { return at::dropout(y, 0.5, true).tanh(); };
    const at::Tensor y = again_ ? recompute(part, x) : part(x);
    return {NoisyGradient::apply(y + x * mask)};
  }
  std::vector<ParamSpec> parameters() override { return {{.name = "w", .parameter = &weight_, .init = {}}}; }

 private:
  bool again_;
  Parameter weight_;
};

LossValue noisy_loss(const Tensors& outputs, const at::Tensor& target) {
  return {(outputs.front() - target + 0.1 * at::randn_like(target)).square().sum(), target.numel()};
}

Model model_of(bool again) {
  Model model{.name = "net", .blocks = {}, .loss = noisy_loss};
  for (const char* name : {"a", "b", "c"}) model.blocks.push_back({name, name, std::make_shared<Dropping>(again)});
  return model;
}

at::Tensor fixed(std::vector<int64_t> shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

class Samples : public Dataset {
 public:
  int64_t size() const override { return 7; }
  Batch get(const std::vector<int64_t>& indices, int64_t) const override {
    const auto first = indices.front(), count = static_cast<int64_t>(indices.size());
    return {{fixed({7, kWidth}, 31).narrow(0, first, count)}, fixed({7, kWidth}, 32).narrow(0, first, count), 0};
  }
};

struct Cell {
  const char* name;
  int ranks = 1;
  int pp = 1;
  int recompute = 0;
  bool shards = false;
  bool again = false;
  const char* schedule = "1f1b";
};

/// Losses, an evaluation, weights; then the caller's draws, who also drew before and between.
std::string train(const World& world, const Cell& cell) {
  const int ranks = world.size() / cell.pp;
  const Mesh mesh(world, {{"pp", cell.pp}, {cell.shards ? "shard" : "dp", ranks}});
  TrainerOptions options{.global_batch = kBatch, .micro_batch = 2, .reproducible_slots = 4};
  if (cell.shards) options.layout.shard_level = ShardLevel::parameters;
  options.layout.recompute_every = cell.recompute;
  options.layout.pipeline.schedule = cell.schedule;
  Trainer trainer(mesh, model_of(cell.again), Sgd{.lr = 0.1}, options);
  at::manual_seed(7);
  const int64_t share = kBatch / ranks, rank = mesh.join({"dp", "shard"}).index;
  EvaluationLoader evaluation(std::make_shared<Samples>(), 2, static_cast<int>(rank), ranks);
  std::string reported;
  for (int64_t step = 0; step < 2; ++step) {
    const at::Tensor x = at::randn({kBatch, kWidth}), y = fixed({kBatch, kWidth}, 22);
    reported +=
        fmt::format("{:a} ", trainer.step(Batch{{x.narrow(0, rank * share, share)}, y.narrow(0, rank * share, share), 0}).loss);
    reported += fmt::format("{:a} ", trainer.evaluate(evaluation).loss);
  }
  std::vector<NamedTensor> weights;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) { weights.push_back({name, value.clone()}); });
  return reported + weights_sha256(weights) + fmt::format(" {:a}", at::rand({1}).item<double>());
}

TEST(OwnRandom, BlocksAndLossesDrawTheSameInEveryLayout) {
  const std::string expected = train(World(), {"one"});
  const Cell cells[] = {{"recompute", 1, 1, 1},
                        {"part_again", 1, 1, 0, false, /*again=*/true},
                        {"shard_recompute", 2, 1, 1, /*shards=*/true},
                        {"pipeline_recompute", 2, 2, 1, false, false, "gpipe"}};
  for (const Cell& cell : cells) {
    if (cell.ranks == 1) {
      EXPECT_EQ(train(World(), cell), expected) << cell.name;
      continue;
    }
    const auto results =
        test::run_processes(cell.ranks, [&cell](const World& world) { return train(world, cell); }, {.label = cell.name});
    for (const test::ProcessResult& result : results) EXPECT_EQ(result.output, expected) << cell.name << ": " << result.error;
  }
}

/// x * w, some of whose elements are dropped, by name.
class DroppingByName : public Block {
 public:
  explicit DroppingByName(std::string name) : name_(std::move(name)) { weight_.value = at::ones({kWidth}); }
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {dropout(inputs.front() * weight_.value, 0.5, context, name_)};
  }
  std::vector<ParamSpec> parameters() override { return {{.name = "w", .parameter = &weight_, .init = {}}}; }

 private:
  std::string name_;
  Parameter weight_;
};

/// Ranks that are threads may draw so, too.
TEST(OwnRandom, DropoutByNameDropsTheSameInEveryLayout) {
  const at::Tensor x = fixed({kBatch, kWidth}, 21), y = fixed({kBatch, kWidth}, 22);
  std::string expected;
  for (const Cell& cell : {Cell{"one"}, {"dp", 2}, {"shard", 2, 1, 0, true}, {"pipeline", 2, 2}, {"recompute", 1, 1, 1}}) {
    test::run_ranks(cell.ranks, [&](World world) {
      const int ranks = cell.ranks / cell.pp;
      const Mesh mesh(world, {{"pp", cell.pp}, {cell.shards ? "shard" : "dp", ranks}});
      TrainerOptions options{.global_batch = kBatch, .micro_batch = 2, .reproducible_slots = 4};
      if (cell.shards) options.layout.shard_level = ShardLevel::parameters;
      options.layout.recompute_every = cell.recompute;
      Model model{.name = "net", .blocks = {}, .loss = [](const Tensors& outputs, const at::Tensor& target) -> LossValue {
                    return {(outputs.front() - target).square().sum(), target.numel()};
                  }};
      for (const char* name : {"a", "b"}) model.blocks.push_back({name, name, std::make_shared<DroppingByName>(name)});
      Trainer trainer(mesh, model, Sgd{.lr = 0.1}, options);
      const int64_t share = kBatch / ranks, rank = mesh.join({"dp", "shard"}).index;
      std::string reported;
      for (int step = 0; step < 2; ++step) {
        const Batch batch{{x.narrow(0, rank * share, share)}, y.narrow(0, rank * share, share), 0};
        reported += fmt::format("{:a} ", trainer.step(batch).loss);
      }
      std::vector<NamedTensor> weights;
      trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) {
        weights.push_back({name, value.clone()});
      });
      reported += weights_sha256(weights);
      if (world.rank() == 0 && expected.empty()) expected = reported;
      EXPECT_TRUE(world.rank() > 0 || reported == expected) << cell.name;
    });
  }
  const at::Tensor kept = dropout(at::ones({4096}), 0.25, Context{.seed = 3}, "a");
  EXPECT_NEAR(kept.eq(0).sum().item<double>(), 1024.0, 120.0);
  EXPECT_TRUE(dropout(kept, 0.25, Context{.training = false}, "a").is_same(kept));
}

/// Steps and evaluations draw nothing from the caller's generator; draws by the caller within a step use it.
TEST(OwnRandom, TheCallersGeneratorIsUnaffected) {
  at::manual_seed(7);
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 9; ++i) expected.push_back(at::randn({3}));
  torch::nn::Sequential net(torch::nn::Linear(kWidth, 8), torch::nn::Dropout(0.5), torch::nn::Linear(8, kWidth));
  Model model = sequential_model("net", net, noisy_loss);
  model.hits = {};
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model, Sgd{.lr = 0.1}, {.global_batch = kBatch, .micro_batch = 4});
  EvaluationLoader evaluation(std::make_shared<Samples>(), 2, 0, 1);
  at::manual_seed(7);
  std::vector<at::Tensor> drawn;
  const auto draw = [&] { drawn.push_back(at::randn({3})); };
  draw();
  trainer.start();
  for (int step = 0; step < 2; ++step) {
    draw();
    trainer.step([&] {
      draw();
      return Batch{{fixed({4, kWidth}, 1)}, fixed({4, kWidth}, 2), 0};
    });
    if (step == 0) trainer.evaluate(evaluation);
  }
  draw();
  trainer.for_each_weight([&](const std::string&, const at::Tensor&) {});
  draw();
  ASSERT_EQ(drawn.size(), expected.size());
  for (size_t i = 0; i < drawn.size(); ++i) EXPECT_TRUE(drawn[i].equal(expected[i])) << i;
}

}  // namespace
}  // namespace weft::own_random_test
