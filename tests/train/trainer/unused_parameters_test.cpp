// A parameter without a gradient in a step is unchanged, as in PyTorch: neither decay nor momentum moves it, and its age stays.
// The global batch decides: ranks, stages and micro-batches exchange this.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
#include "weft/models/vision.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::unused_parameters_test {
namespace {

using Weights = std::map<std::string, at::Tensor>;

constexpr double kRate = 1e-2;
constexpr int64_t kSamples = 4, kWidth = 4;

at::Tensor numbers(at::IntArrayRef sizes, int64_t seed) {
  const int64_t numel = c10::multiply_integers(sizes);
  return at::arange(numel, at::kFloat).mul(0.37).add(static_cast<double>(seed)).sin().view(sizes);
}

/// A layer that every sample goes through, one for those whose first number is above 1, and one whose outputs nobody reads.
struct RoutedImpl : torch::nn::Module {
  RoutedImpl()
      : all(register_module("all", torch::nn::Linear(kWidth, kWidth))),
        some(register_module("some", torch::nn::Linear(kWidth, kWidth))),
        none(register_module("none", torch::nn::Linear(kWidth, kWidth))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor picked = x.select(1, 0).gt(1.0).unsqueeze(1);
    const at::Tensor y = all(x);
    return picked.any().item<bool>() ? y + some(x) * picked : y;
  }
  torch::nn::Linear all, some, none;
};
TORCH_MODULE(Routed);

/// Has a second block, which pipelines need, and a loss linear in the first one's weights.
torch::nn::Sequential layers() {
  torch::nn::Sequential layers(Routed(), torch::nn::Linear(kWidth, kWidth));
  int64_t seed = 1;
  at::NoGradGuard no_grad;
  for (const at::Tensor& value : layers->parameters()) value.copy_(numbers(value.sizes(), seed++));
  return layers;
}

LossValue product(const Tensors& out, const at::Tensor& target) { return {(out.front() * target).sum(), target.numel()}; }

/// The whole batch: its last sample uses the layer in some steps; in others none does.
Batch batch_of(bool picked) {
  Batch batch{.inputs = {numbers({kSamples, kWidth}, 7)}, .target = numbers({kSamples, kWidth}, 9)};
  if (picked) batch.inputs.front()[kSamples - 1][0] = 2.0;
  return batch;
}

Weights weights_after(const World& world, const char* axis, const OptimizerOptions& optimizer, const TrainerOptions& options,
                      const std::vector<bool>& steps) {
  const torch::nn::Sequential net = layers();
  const std::shared_ptr<RoutedImpl> routed = net->ptr<RoutedImpl>(0);
  const std::shared_ptr<torch::nn::LinearImpl> last = net->ptr<torch::nn::LinearImpl>(1);
  const auto first_block = [routed](const Tensors& in) -> Tensors { return {routed->forward(in[0]), routed->none(in[0])}; };
  const auto last_block = [last](const Tensors& in) -> Tensors { return {last->forward(in[0])}; };
  Model model{.name = "net",
              .blocks = {{"0", "0", module_block("0", routed, first_block)}, {"1", "1", module_block("1", last, last_block)}},
              .loss = product};
  model.hits = {};
  Trainer trainer(Mesh(world, {{axis, world.size()}}), model, optimizer, options);
  const bool whole = axis == std::string("pp");
  const int64_t share = whole ? kSamples : kSamples / world.size(), first = whole ? 0 : share * world.rank();
  for (const bool picked : steps) {
    Batch batch = batch_of(picked);
    trainer.step({.inputs = {batch.inputs.front().narrow(0, first, share)}, .target = batch.target.narrow(0, first, share)});
  }
  Weights weights;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) { weights[name] = value.clone(); });
  return weights;
}

TrainerOptions options_of(int64_t micro_batch) {
  return {.global_batch = kSamples,
          .micro_batch = micro_batch,
          .parameters = {{.names = "1.*", .lr_factor = 0.0, .weight_decay = 0.0}}};
}

struct Row {
  const char* name;
  OptimizerOptions optimizer = AdamW{.lr = kRate, .weight_decay = 0.1};
  int ranks = 1;
  const char* axis = "dp";
  TrainerOptions options = options_of(1);
};

std::vector<Row> rows() {
  std::vector<Row> rows = {{"alone"},
                           {"sgd", Sgd{.lr = kRate, .momentum = 0.9, .weight_decay = 0.1}},
                           {"lars", Lars{.lr = kRate, .momentum = 0.9, .weight_decay = 0.1}},
                           {"lamb", Lamb{.lr = kRate, .weight_decay = 0.1}},
                           {"lion", Lion{.lr = kRate, .weight_decay = 0.1}},
                           {"rmsprop", RmsProp{.lr = kRate, .weight_decay = 0.1, .momentum = 0.5}},
                           {"adagrad", Adagrad{.lr = kRate, .weight_decay = 0.1}},
                           {"muon", Muon{.lr = kRate, .weight_decay = 0.1}},
                           {"muon, shards", Muon{.lr = kRate, .weight_decay = 0.1}, 2, "shard"},
                           {"adafactor", Adafactor{.lr = kRate, .weight_decay = 0.1}},
                           {"two ranks"},
                           {"two ranks, slots"},
                           {"two ranks, votes"},
                           {"optimizer shards"},
                           {"gradient shards"},
                           {"parameter shards"},
                           {"stages"},
                           {"bf16, recomputed"},
                           {"clipped, offloaded"}};
  for (Row& row : rows) {
    const std::string name = row.name;
    LayoutOptions& layout = row.options.layout;
    if (name.starts_with("two ranks")) row.ranks = 2;
    if (name.ends_with("slots")) row.options.reproducible_slots = 4;
    if (name.ends_with("votes")) row.options.votes = {.count = 2, .of_rank = [] { return std::vector<double>{0.0, 7.0}; }};
    if (name.ends_with("shards")) row.ranks = 2, row.axis = "shard", layout.shard_level = ShardLevel::optimizer;
    if (name.starts_with("gradient")) layout.shard_level = ShardLevel::gradients;
    if (name.starts_with("parameter")) layout.shard_level = ShardLevel::parameters;
    if (name == "stages") row.ranks = 2, row.axis = "pp";
    if (name.starts_with("bf16")) layout.precision = Precision::bf16, layout.recompute_every = 1;
    if (name.starts_with("clipped")) row.options.clip = 1e3, layout.offload_optimizer = Offload::host;
  }
  return rows;
}

TEST(UnusedParameters, MoveLikeWithoutTheSteps) {
  at::NoGradGuard no_grad;
  const torch::nn::Sequential begun = layers();
  const at::Tensor none = begun->named_parameters()["0.none.weight"], some = begun->named_parameters()["0.some.weight"];
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    test::run_ranks(row.ranks, [&](const World& world) {
      const auto after = [&](const std::vector<bool>& steps) {
        return weights_after(world, row.axis, row.optimizer, row.options, steps);
      };
      const Weights with = after({true, false, true, false}), without = after({true, true}), never = after({false, false});
      for (const auto& [name, value] : with) {
        if (name.starts_with("0.some")) {
          EXPECT_TRUE(value.equal(without.at(name))) << name;
        }
        if (name.starts_with("0.none")) {
          EXPECT_TRUE(value.equal(never.at(name))) << name;
        }
      }
      if (with.empty()) return;
      EXPECT_TRUE(with.at("0.none.weight").equal(none));
      EXPECT_TRUE(never.at("0.some.weight").equal(some));
      EXPECT_FALSE(with.at("0.some.weight").equal(some));
      EXPECT_FALSE(with.at("0.all.weight").equal(without.at("0.all.weight")));
    });
  }
}

/// LibTorch's loop over the same steps.
template <class Optimizer, class Options>
Weights libtorch(const Options& options, const std::vector<bool>& steps) {
  torch::nn::Sequential net = layers();
  for (const at::Tensor& value : net->ptr(1)->parameters()) value.requires_grad_(false);
  Optimizer optimizer(net->parameters(), options);
  for (const bool picked : steps) {
    const Batch batch = batch_of(picked);
    optimizer.zero_grad();
    ((net->forward(batch.inputs.front()) * batch.target).sum() / batch.target.numel()).backward();
    optimizer.step();
  }
  Weights weights;
  for (const auto& entry : net->named_parameters()) weights[entry.key()] = entry.value().detach();
  return weights;
}

TEST(UnusedParameters, AreLeftAsLibTorchLeavesThem) {
  const std::vector<bool> steps = {false, true, false, true};
  const auto compare = [&](const OptimizerOptions& optimizer, const Weights& expected) {
    TrainerOptions options = options_of(kSamples);
    options.parameters = {};
    options.parameters.push_back({.names = "1.*", .frozen = true});
    const Weights weights = weights_after(World(), "dp", optimizer, options, steps);
    for (const auto& [name, value] : weights) {
      EXPECT_TRUE(value.allclose(expected.at(name), 1e-6, 1e-7)) << name << '\n' << value << expected.at(name);
    }
  };
  // All parameters decay there, two-dimensional ones here.
  compare(Sgd{.lr = kRate, .momentum = 0.9, .weight_decay = 0.0},
          libtorch<torch::optim::SGD>(torch::optim::SGDOptions(kRate).momentum(0.9), steps));
  compare(AdamW{.lr = kRate, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.0},
          libtorch<torch::optim::AdamW>(torch::optim::AdamWOptions(kRate).betas({0.9, 0.99}).weight_decay(0.0), steps));
}

/// weft's own blocks declare no unused parameters; a block after them that reads their outputs without a graph is refused.
TEST(UnusedParameters, OfBlocksThatAlwaysUseAllAreRefused) {
  Model model = mlp({.inputs = kWidth, .width = kWidth, .layers = 2, .classes = kWidth});
  torch::nn::Linear last(kWidth, kWidth);
  const auto detached = [last](const Tensors& in) mutable -> Tensors { return {last->forward(in[0].detach())}; };
  model.blocks.push_back({"last", "last", module_block("last", last.ptr(), detached)});
  model.loss = product;
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model, Sgd{.lr = kRate}, {.global_batch = kSamples, .micro_batch = kSamples});
  const std::string error = test::refusal([&] { trainer.step(batch_of(false)); });
  EXPECT_NE(error.find("no block after 'head', and no loss, has a gradient for its outputs"), std::string::npos) << error;
}

}  // namespace
}  // namespace weft::unused_parameters_test
