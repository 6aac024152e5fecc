// Non-finite values are refused before they are written: gradients with a finite loss, changes of statistics, norms that
// float32 cannot divide by; and they are not saved.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/comm/mesh.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::not_finite_test {
namespace {

using test::TempFolder;
using torch::nn::Linear;
using torch::nn::Sequential;

constexpr int64_t kSamples = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor numbers(at::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kFloat).mul(0.37).sin().view(sizes);
}

LossValue mean_square(const Tensors& out, const at::Tensor& target) {
  return {(out.front() - target).square().sum(), target.numel()};
}

/// A finite loss whose gradient is not a number: the root of 0.
LossValue with_root(const Tensors& out, const at::Tensor& target) {
  return {(out.front() - target).square().sum() + (out.front() * 0.0).sqrt().sum(), target.numel()};
}

/// One whose gradient is so many times the output's sum.
Loss times(double factor) {
  return [factor](const Tensors& out, const at::Tensor& target) -> LossValue {
    return {(out.front() * target * factor).sum(), target.numel()};
  };
}

Model model_of(const Sequential& layers, const Loss& loss) {
  Model model = sequential_model("net", layers, loss);
  model.hits = {};
  return model;
}

Batch batch_of(const World& world, int data_ranks, at::IntArrayRef sizes = {kSamples, 3}) {
  const int64_t share = kSamples / data_ranks, first = data_ranks > 1 ? share * world.rank() : 0;
  return {.inputs = {numbers(sizes).narrow(0, first, share)}, .target = numbers({kSamples, 2}).narrow(0, first, share)};
}

std::vector<OptimizerOptions> optimizers() {
  return {AdamW{}, Sgd{}, Lars{}, Lamb{}, Lion{}, RmsProp{}, Adagrad{}, Muon{}, Adafactor{}};
}

/// The text of the NumericError that a call throws; another error fails.
template <class Call>
std::string numeric_error(const Call& call) {
  try {
    call();
  } catch (const NumericError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(NotFinite, GradientsAreRefusedBeforeAnythingIsWritten) {
  for (const OptimizerOptions& optimizer : optimizers()) {
    for (const double clip : {0.0, 1.0}) {
      SCOPED_TRACE(optimizer_text(optimizer) + ", clip " + std::to_string(clip));
      Sequential layers(Linear(3, 4), Linear(4, 4), Linear(4, 2));
      const World world;
      Trainer trainer(Mesh(world, {{"dp", 1}}), model_of(layers, with_root), optimizer,
                      {.global_batch = kSamples, .micro_batch = kSamples, .average = {.decay = 0.9}, .clip = clip});
      trainer.start();
      std::vector<at::Tensor> before;
      for (const at::Tensor& value : layers->parameters()) before.push_back(value.detach().clone());
      const std::string error = numeric_error([&] { trainer.step(batch_of(world, 1)); });
      EXPECT_TRUE(contains(error, "step 1: ") && contains(error, "of '0.weight'")) << error;
      EXPECT_FALSE(contains(error, "learning rate")) << error;
      for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(layers->parameters()[i].equal(before[i])) << i;
    }
  }
}

/// Whichever rank has it.
TEST(NotFinite, GradientsAreRefusedOnAllRanks) {
  const struct {
    const char* axis;
    ShardLevel level = ShardLevel::none;
  } table[] = {
      {"dp"}, {"shard", ShardLevel::optimizer}, {"shard", ShardLevel::gradients}, {"shard", ShardLevel::parameters}, {"pp"}};
  for (const auto& row : table) {
    for (const double clip : {0.0, 1.0}) {
      SCOPED_TRACE(std::string(row.axis) + ", clip " + std::to_string(clip));
      std::atomic<int> refused = 0;
      const auto on_rank = [&](World world) {
        const int data_ranks = row.axis == std::string("pp") ? 1 : world.size();
        LayoutOptions layout{.shard_level = row.level};
        Trainer trainer(Mesh(world, {{row.axis, world.size()}}), model_of(Sequential(Linear(3, 4), Linear(4, 2)), with_root),
                        AdamW{}, {.global_batch = kSamples, .micro_batch = kSamples / 2, .clip = clip, .layout = layout});
        const std::string error = numeric_error([&] { trainer.step(batch_of(world, data_ranks)); });
        EXPECT_TRUE(contains(error, "step 1: ")) << error;
        if (contains(error, "step 1: ")) ++refused;
      };
      test::run_ranks(2, on_rank);
      EXPECT_EQ(refused, 2);
    }
  }
}

/// A variance that float32 does not have, under values that are normalised by it to zeros.
TEST(NotFinite, ChangesOfStatisticsCount) {
  for (const double clip : {0.0, 1.0}) {
    Sequential layers(torch::nn::BatchNorm1d(3), Linear(3, 2));
    const World world;
    Trainer trainer(Mesh(world, {{"dp", 1}}), model_of(layers, mean_square), Sgd{.lr = 0.1},
                    {.global_batch = kSamples, .micro_batch = kSamples, .clip = clip});
    Batch batch = batch_of(world, 1);
    batch.inputs.front().mul_(1e25);
    const std::string error = numeric_error([&] { trainer.step(batch); });
    EXPECT_TRUE(contains(error, "'0.running_var'")) << error;
  }
  Sequential layers(torch::nn::InstanceNorm1d(torch::nn::InstanceNorm1dOptions(3).track_running_stats(true)),
                    torch::nn::Flatten(), Linear(3, 2));
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model_of(layers, mean_square), Sgd{.lr = 0.1},
                  {.global_batch = kSamples, .micro_batch = kSamples});
  const std::string error = numeric_error([&] { trainer.step(batch_of(World(), 1, {kSamples, 3, 1})); });
  EXPECT_TRUE(contains(error, "'0.running_var'")) << "the variance of one value: " << error;
}

/// A variance whose square float32 does not have is one like any other.
TEST(NotFinite, ChangesOfStatisticsMayBeLarge) {
  Sequential layers(torch::nn::BatchNorm1d(3), Linear(3, 2));
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model_of(layers, mean_square), AdamW{},
                  {.global_batch = kSamples, .micro_batch = kSamples});
  Batch batch = batch_of(World(), 1);
  batch.inputs.front().mul_(1e12);
  trainer.step(batch);
  EXPECT_GT(layers->buffers()[1].max().item<float>(), 2e19F);
}

/// A block with weft's own batch norm.
class OwnNorm : public Block {
 public:
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {norm_(inputs.front().unsqueeze(-1).unsqueeze(-1), context).flatten(1)};
  }
  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    norm_.describe(specs, "norm");
    return specs;
  }

 private:
  BatchNorm2d norm_{3, 0.1, 1e-5};
};

TEST(NotFinite, BatchNormOfOneValueAChannelIsRefused) {
  const auto own = [] {
    Model model = model_of(Sequential(Linear(3, 2)), mean_square);
    model.blocks.insert(model.blocks.begin(), {"own", "own", std::make_shared<OwnNorm>()});
    return model;
  };
  const auto torchs = [] { return model_of(Sequential(torch::nn::BatchNorm1d(3), Linear(3, 2)), mean_square); };
  const struct {
    std::function<Model()> model;
    std::vector<std::string> says;
  } table[] = {{own, {"block 'own'", "one value per channel", "[1, 3, 1, 1]", "batch.micro"}},
               {torchs, {"block '0'", "more than 1 value per channel", "[1, 3]", "batch.micro"}}};
  for (const auto& row : table) {
    for (const int64_t micro : {1, 2}) {
      Trainer trainer(Mesh(World(), {{"dp", 1}}), row.model(), Sgd{.lr = 0.1}, {.global_batch = 2, .micro_batch = micro});
      Batch batch = batch_of(World(), 1);
      batch = {.inputs = {batch.inputs.front().narrow(0, 0, 2)}, .target = batch.target.narrow(0, 0, 2)};
      const std::string error = test::refusal([&] { trainer.step(batch); });
      EXPECT_EQ(error.empty(), micro == 2) << error;
      for (const std::string& part : row.says) EXPECT_EQ(contains(error, part), micro == 1) << part << ": " << error;
    }
  }
}

TEST(NotFinite, WhatFloat32CannotDivideByIsRefused) {
  const struct {
    const char* name;
    OptimizerOptions optimizer;
    double factor, clip;
    const char* says;
    bool noise_scale = false;
  } table[] = {{"clipped", Sgd{.lr = 0.1}, 1e37, 1e-3, "so far above the clip of 0.001"},
               {"clipped, AdamW", AdamW{}, 1e37, 1e-3, "so far above the clip of 0.001"},
               {"clipped, LARS", Lars{}, 1e37, 1e-3, "so far above the clip of 0.001"},
               {"clipped within range", Sgd{.lr = 0.1}, 1e37, 1.0, ""},
               {"its square", AdamW{}, 1e22, 0.0, "whose square is larger than float32 holds"},
               {"its square, where the noise scale is measured", AdamW{}, 1e22, 0.0, "whose square is larger", true},
               {"its square, clipped", AdamW{}, 1e22, 1.0, ""},
               {"no square", Sgd{.lr = 1e-25, .momentum = 0.0}, 1e22, 0.0, ""}};
  for (const auto& row : table) {
    Sequential layers(Linear(3, 4), Linear(4, 2));
    const World world;
    Trainer trainer(Mesh(world, {{"dp", 1}}), model_of(layers, times(row.factor)), row.optimizer,
                    {.global_batch = kSamples,
                     .micro_batch = row.noise_scale ? kSamples / 2 : kSamples,
                     .clip = row.clip,
                     .noise_scale = row.noise_scale});
    Batch batch = batch_of(world, 1);
    const std::string error = numeric_error([&] { trainer.step(batch); });
    EXPECT_EQ(contains(error, "step 1: "), *row.says != 0) << row.name << ": " << error;
    EXPECT_TRUE(contains(error, row.says)) << row.name << ": " << error;
  }
}

TEST(NotFinite, ALearningRateThatIsNoNumberIsRefused) {
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model_of(Sequential(Linear(3, 2)), mean_square), Sgd{.lr = 0.1},
                  {.global_batch = kSamples,
                   .micro_batch = kSamples,
                   .learning_rate = {.decay = Decay::step, .decay_every = 1, .decay_factor = 1e30}});
  trainer.step(batch_of(World(), 1));
  EXPECT_TRUE(contains(numeric_error([&] {
                         trainer.step(batch_of(World(), 1));
                         trainer.step(batch_of(World(), 1));
                       }),
                       "the learning rate is"));
}

/// Logits that are finite, of a loss that is above float32's largest.
TEST(NotFinite, ALossAboveFloat32sLargestIsInfinite) {
  Linear layer(3, 2);
  layer->weight.detach().copy_(at::tensor({0.3, -0.3}).unsqueeze(1));
  layer->bias.detach().zero_();
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model_of(Sequential(layer), cross_entropy), Sgd{.lr = 0.1},
                  {.global_batch = kSamples, .micro_batch = kSamples});
  Batch batch{.inputs = {at::full({kSamples, 3}, 3e38)}, .target = at::arange(kSamples, at::kLong).remainder(2)};
  const std::string error = numeric_error([&] { trainer.step(batch); });
  EXPECT_TRUE(contains(error, "the loss is inf")) << error;
}

/// A mask may hold -inf; trained weights, their optimizer state and their average may not.
TEST(NotFinite, IsNotSaved) {
  const struct {
    const char* name;
    OptimizerOptions optimizer;
    double factor;
    int steps;
    const char* says;
  } table[] = {{"weights", Sgd{.lr = 3e38, .momentum = 0.0}, 100.0, 1, "'model/0.weight' is not finite"},
               {"state", Adagrad{}, 3e19, 2, "'sum/0.weight' is not finite"},
               {"nothing", Sgd{.lr = 0.1}, 1.0, 1, ""}};
  struct Masked : torch::nn::Module {
    Masked() {
      weight = register_parameter("weight", at::ones({2, 3}));
      mask = register_buffer("mask", at::full({2}, -kInfinity));
    }
    at::Tensor weight, mask;
  };
  for (const auto& row : table) {
    for (const bool in_background : {false, true}) {
      SCOPED_TRACE(row.name);
      const TempFolder folder;
      std::atomic<int> refused = 0;
      const auto on_rank = [&](World world) {
        const auto masked = std::make_shared<Masked>();
        const auto forward = [masked](const Tensors& in) -> Tensors { return {at::matmul(in.front(), masked->weight.t())}; };
        Model model = model_of(Sequential(Linear(3, 2)), times(row.factor));
        model.blocks = {{"0", "0", module_block("0", masked, forward)}};
        Trainer trainer(Mesh(world, {{"dp", world.size()}}), model, row.optimizer,
                        {.global_batch = kSamples, .micro_batch = 2});
        Batch batch = batch_of(world, world.size());
        batch.inputs = {at::ones({2, 3})};
        batch.target = at::ones({2, 2});
        trainer.save(folder.file("good"));
        for (int step = 0; step < row.steps; ++step) trainer.step(batch);
        const std::string error = numeric_error([&] {
          in_background ? trainer.save_in_background(folder.file("a")) : static_cast<void>(trainer.save(folder.file("a")));
          trainer.finish_save();
        });
        EXPECT_TRUE(contains(error, row.says)) << error;
        if (error != "nothing was thrown") ++refused;
        trainer.load(folder.file("good"));  // the trainer's state is complete
        trainer.save(folder.file("again"));
      };
      test::run_ranks(2, on_rank);
      EXPECT_EQ(refused, *row.says ? 2 : 0);
      EXPECT_EQ(std::filesystem::exists(folder.file("a")), *row.says == 0);
    }
  }
}

}  // namespace
}  // namespace weft::not_finite_test
