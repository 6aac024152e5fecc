// The user decides for each torch module whether it trains or evaluates: neither a step nor an evaluation overrides it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <stdexcept>

#include "tests/support/run_ranks.h"
#include "tests/train/reference.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::module_mode_test {
namespace {

using Values = std::map<std::string, at::Tensor>;

constexpr int64_t kBatch = 8, kMicro = 2, kWidth = 6;
constexpr int kSteps = 4;
constexpr double kRate = 0.125;  // a power of two: the update has one rounding however it is computed

struct Network {
  torch::nn::BatchNorm1d still{kWidth}, moving{kWidth};
  torch::nn::Dropout dropout{0.5};
  torch::nn::Sequential net{nullptr};
};

/// A BatchNorm and a Dropout that are in eval(), and a BatchNorm that learns.
Network network() {
  Network n;
  n.net = torch::nn::Sequential(torch::nn::Linear(kWidth, kWidth), n.still, torch::nn::Tanh(), n.dropout,
                                torch::nn::Linear(kWidth, kWidth), n.moving, torch::nn::Linear(kWidth, 3));
  const c10::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(5);
  for (at::Tensor& value : n.net->parameters()) value.copy_(at::randn(value.sizes(), generator, at::kFloat).mul(0.4));
  n.still->running_mean.fill_(0.25);
  n.still->running_var.fill_(2.0);
  n.still->eval();
  n.dropout->eval();
  return n;
}

std::vector<bool> flags_of(const Network& n) {
  std::vector<bool> flags;
  for (const auto& module : n.net->modules()) flags.push_back(module->is_training());
  return flags;
}

Batch batch_of(int64_t step) {
  const at::Generator g = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const at::Tensor x = at::randn({kBatch, kWidth}, g, at::kFloat);
  return {{x}, at::randint(3, {kBatch}, g, at::kLong)};
}

class Samples final : public Dataset {
 public:
  int64_t size() const override { return kBatch; }
  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    return slice(batch_of(9), indices.front(), static_cast<int64_t>(indices.size()));
  }
};

/// One device, plain LibTorch, whose BatchNorm statistics are combined over micro-batches as weft's are.
Values plain_training() {
  Network n = network();
  for (int64_t step = 0; step < kSteps; ++step) {
    const at::Tensor mean = n.moving->running_mean.clone(), var = n.moving->running_var.clone();
    Tensors means, vars;
    std::vector<Tensors> gradients;
    for (int64_t j = 0; j < kBatch / kMicro; ++j) {
      const Batch micro = slice(batch_of(step), j * kMicro, kMicro);
      const c10::AutoGradMode gradient(true);
      n.net->zero_grad();
      cross_entropy({n.net->forward(micro.inputs[0])}, micro.target).sum.div(kBatch).backward();
      const c10::NoGradGuard no_grad;
      gradients.emplace_back();
      for (const at::Tensor& value : n.net->parameters()) gradients.back().push_back(value.grad().clone());
      means.push_back(n.moving->running_mean.sub(mean));
      vars.push_back(n.moving->running_var.sub(var));
      n.moving->running_mean.copy_(mean);
      n.moving->running_var.copy_(var);
    }
    const c10::NoGradGuard no_grad;
    const auto tree = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Tensor& d) {
      return a.add(b).add(c.add(d));
    };
    std::vector<at::Tensor> parameters = n.net->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].sub_(tree(gradients[0][i], gradients[1][i], gradients[2][i], gradients[3][i]), kRate);
    }
    n.moving->running_mean.add_(tree(means[0], means[1], means[2], means[3]), 0.25);
    n.moving->running_var.add_(tree(vars[0], vars[1], vars[2], vars[3]), 0.25);
    n.moving->num_batches_tracked.fill_(step + 1);
  }
  Values values;
  for (const auto& entry : n.net->named_parameters()) values[entry.key()] = entry.value().detach();
  for (const auto& entry : n.net->named_buffers()) values[entry.key()] = entry.value();
  return values;
}

struct Case {
  const char* name;
  std::vector<AxisSize> mesh;
  LayoutOptions layout = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  return {{"one", {{"dp", 1}}},
          {"recompute", {{"dp", 1}}, {.recompute_every = 1}},
          {"replicas", {{"dp", 2}}},
          {"zero3_recompute", {{"shard", 2}}, {.shard_level = ShardLevel::parameters, .recompute_every = 1}},
          {"pipeline", {{"pp", 2}}},
          {"pipeline_hybrid", {{"pp", 2}, {"dp", 2}}}};
}

class ModuleModeTest : public ::testing::TestWithParam<Case> {};

TEST_P(ModuleModeTest, HasTheBitsOfPlainTrainingWithEvaluationsBetween) {
  const Values expected = plain_training();
  int ranks = 1;
  for (const AxisSize& axis : GetParam().mesh) ranks *= axis.size;
  test::run_ranks(ranks, [&](World world) {
    const Mesh mesh(world, GetParam().mesh);
    const Network n = network();
    const std::vector<bool> flags = flags_of(n);
    Trainer trainer(mesh, sequential_model("net", n.net), Sgd{.lr = kRate, .momentum = 0.0},
                    {.global_batch = kBatch, .micro_batch = kMicro, .reproducible_slots = 4, .layout = GetParam().layout});
    const Axis data = mesh.join({"dp", "shard"});
    const int64_t share = kBatch / data.size();
    EvaluationLoader loader(std::make_shared<Samples>(), kMicro, data.index, data.size());
    for (int64_t step = 0; step < kSteps; ++step) {
      trainer.step(slice(batch_of(step), data.index * share, share));
      EXPECT_EQ(flags_of(n), flags);
      trainer.evaluate(loader);
      EXPECT_EQ(flags_of(n), flags);
    }
    trainer.for_each_weight(
        [&](const std::string& name, const at::Tensor& value) { EXPECT_TRUE(at::equal(value, expected.at(name))) << name; });
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, ModuleModeTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

Trainer alone(const torch::nn::Sequential& net) {
  return Trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", net), Sgd{.lr = kRate},
                 {.global_batch = kBatch, .micro_batch = kBatch});
}

TEST(ModuleMode, OfARootInEvalIsHeeded) {
  Network n = network();
  n.net->eval();
  const at::Tensor mean = n.moving->running_mean.clone();
  Trainer trainer(Mesh(World(), {{"dp", 1}}), module_model("net", n.net), Sgd{.lr = kRate},
                  {.global_batch = kBatch, .micro_batch = kBatch});
  trainer.step(batch_of(0));
  EXPECT_TRUE(at::equal(n.moving->running_mean, mean));
  EXPECT_EQ(n.moving->num_batches_tracked.item<int64_t>(), 0);
  n.net->train();  // from the next step on
  trainer.step(batch_of(1));
  EXPECT_FALSE(at::equal(n.moving->running_mean, mean));
  EXPECT_EQ(n.moving->num_batches_tracked.item<int64_t>(), 1);
}

/// Notes whether it is training.
struct WitnessImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    seen.push_back(is_training());
    if (fails) throw std::runtime_error("no forward");
    return x;
  }
  std::vector<bool> seen;
  bool fails = false;
};
TORCH_MODULE(Witness);

TEST(ModuleMode, OfAModuleThatIsWithinTwoOthersIsKept) {
  auto holder = std::make_shared<torch::nn::Module>();
  const auto first = holder->register_module("first", std::make_shared<torch::nn::Module>());
  const auto second = holder->register_module("second", std::make_shared<torch::nn::Module>());
  Witness shared;
  torch::nn::Linear layer(kWidth, 3);
  first->register_module("shared", shared.ptr());
  second->register_module("shared", shared.ptr());
  holder->register_module("layer", layer.ptr());
  first->eval();
  second->train();
  shared->eval();
  const auto run = [&](const Tensors& in) -> Tensors { return {layer->forward(shared->forward(in.front()))}; };
  Trainer trainer(Mesh(World(), {{"dp", 1}}),
                  {.name = "net", .blocks = {{"all", "", module_block("all", holder, run)}}, .loss = cross_entropy},
                  Sgd{.lr = kRate}, {.global_batch = kBatch, .micro_batch = kBatch});
  const auto flags = [&] {
    return std::vector<bool>{holder->is_training(), first->is_training(), second->is_training(), shared->is_training(),
                             layer->is_training()};
  };
  const std::vector<bool> before = flags();
  EvaluationLoader loader(std::make_shared<Samples>(), kBatch, 0, 1);
  trainer.step(batch_of(0));
  trainer.evaluate(loader);
  EXPECT_EQ(flags(), before);
  EXPECT_EQ(before, (std::vector<bool>{true, false, true, false, true}));
}

TEST(ModuleMode, IsGivenBackWhereAnEvaluationFails) {
  Witness witness;
  torch::nn::Sequential net(torch::nn::Linear(kWidth, 3), witness);
  Trainer trainer = alone(net);
  trainer.step(batch_of(0));
  witness->fails = true;
  EvaluationLoader loader(std::make_shared<Samples>(), kBatch, 0, 1);
  EXPECT_ANY_THROW(trainer.evaluate(loader));
  EXPECT_EQ(witness->seen, (std::vector<bool>{true, false}));
  EXPECT_TRUE(witness->is_training());
}

}  // namespace
}  // namespace weft::module_mode_test
