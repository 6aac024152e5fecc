// Activations that are moved out: the room they take there, and outputs that their own block's backward keeps.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include "tests/data/temp_folder.h"
#include "weft/base/error.h"
#include "weft/engine/memory_ledger.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::offload_test {
namespace {

constexpr int64_t kWidth = 32, kSamples = 2, kMicroBatches = 4;
constexpr int kBlocks = 6;

/// Each block ends with a tanh, whose backward reads its own output.
Model network() {
  torch::nn::Sequential layers;
  const c10::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(3);
  for (int b = 0; b < kBlocks; ++b) {
    layers->push_back(torch::nn::Linear(kWidth, kWidth));
    layers->push_back(torch::nn::Tanh());
  }
  for (at::Tensor& parameter : layers->parameters()) parameter.uniform_(-0.3, 0.3, generator);
  return sequential_model("net", layers);
}

/// [samples, length, width]
Batch batch_of(int64_t step, int64_t length) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const int64_t samples = kSamples * kMicroBatches;
  return {{at::randn({samples, length, kWidth}, generator, at::kFloat)},
          at::randint(kWidth, {samples, length}, generator, at::kLong)};
}

Trainer trainer_of(const LayoutOptions& layout, MemoryLedger* ledger = nullptr) {
  return Trainer(Mesh(World(), {{"dp", 1}}), network(), Sgd{.lr = 0.1},
                 {.global_batch = kSamples * kMicroBatches, .micro_batch = kSamples, .layout = layout, .ledger = ledger});
}

/// Size of this process's open, unnamed files in the folder.
int64_t bytes_on_disk(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    struct stat about {};
    if (target.rfind(folder.string(), 0) != 0 || ::stat(entry.path().c_str(), &about) != 0) continue;
    bytes += about.st_size;
  }
  return bytes;
}

struct Trained {
  std::vector<at::Tensor> weights;
  CategoryBytes peak{};
  int64_t on_disk = 0;  ///< in the folder, after the last step

  int64_t peak_of_activations() const { return peak[static_cast<size_t>(MemoryCategory::activations)]; }
};

Trained trained(Trainer& trainer, const MemoryLedger& ledger, const test::TempFolder& folder, int steps, int64_t length) {
  for (int64_t step = 0; step < steps; ++step) trainer.step(batch_of(step, length));
  Trained result{.weights = {}, .peak = ledger.peak(), .on_disk = bytes_on_disk(folder.path())};
  trainer.for_each_weight([&](const std::string&, const at::Tensor& value) { result.weights.push_back(value.clone()); });
  return result;
}

void expect_same_weights(const Trained& actual, const Trained& expected) {
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  for (size_t i = 0; i < expected.weights.size(); ++i) EXPECT_TRUE(at::equal(actual.weights[i], expected.weights[i])) << i;
}

TEST(OffloadedActivations, TakeTheRoomOfTheLongestStepWhenLengthsChange) {
  const test::TempFolder folder;
  Trainer trainer =
      trainer_of({.recompute_every = 1, .offload_activations = Offload::disk, .offload_folder = folder.path().string()});
  constexpr int64_t kLongest = 40;
  for (int64_t length = 1; length <= kLongest; ++length) trainer.step(batch_of(length, length));
  for (int64_t step = 0; step < 10; ++step) trainer.step(batch_of(step, 1 + 7 * step % kLongest));
  const int64_t input = kSamples * kLongest * kWidth * static_cast<int64_t>(sizeof(float));
  EXPECT_EQ(bytes_on_disk(folder.path()), (kBlocks - 2) * input) << "all but the first and the last, of one micro-batch";
}

TEST(OffloadedActivations, StayWhereTheirOwnBlocksBackwardKeepsThem) {
  const test::TempFolder folder;
  const auto train = [&](Offload kind) {
    MemoryLedger ledger;
    Trainer trainer =
        trainer_of({.recompute_every = 2, .offload_activations = kind, .offload_folder = folder.path().string()}, &ledger);
    return trained(trainer, ledger, folder, 3, 16);
  };
  const Trained without = train(Offload::none), with = train(Offload::disk);
  expect_same_weights(with, without);
  EXPECT_EQ(without.on_disk, 0);
  EXPECT_EQ(with.on_disk, 0) << "moving them frees nothing";
  EXPECT_LE(with.peak_of_activations(), without.peak_of_activations());
}

/// A linear layer, then pairs of a block that passes on its input (as it is, or as a view) and a linear layer.
Model network_with_views() {
  Model model{.name = "views", .blocks = {}, .loss = cross_entropy};
  const c10::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(3);
  const auto add = [&](const std::string& name, const std::function<at::Tensor(const at::Tensor&)>& run,
                       std::shared_ptr<torch::nn::Module> module) {
    for (at::Tensor& parameter : module->parameters()) parameter.uniform_(-0.3, 0.3, generator);
    model.blocks.push_back(
        {name, name, module_block(name, std::move(module), [run](const Tensors& in) -> Tensors { return {run(in.front())}; })});
  };
  for (int i = 0; i < 4; ++i) {
    const auto pass = [i](const at::Tensor& x) { return i % 2 ? x : x.flatten(1).view_as(x); };
    if (i > 0) add("view" + std::to_string(i), pass, std::make_shared<torch::nn::Module>());
    const auto layer = std::make_shared<torch::nn::LinearImpl>(kWidth, kWidth);
    add(
        "linear" + std::to_string(i), [layer](const at::Tensor& x) { return layer->forward(x); }, layer);
  }
  return model;
}

TEST(OffloadedActivations, GoWithTheLastBlockThatHandsOnAViewOfThem) {
  constexpr int64_t kLength = 256, kInput = kSamples * kLength * kWidth * static_cast<int64_t>(sizeof(float));
  const test::TempFolder folder;
  const auto train = [&](Offload kind) {
    MemoryLedger ledger;
    Trainer trainer(Mesh(World(), {{"dp", 1}}), network_with_views(), Sgd{.lr = 0.1},
                    {.global_batch = kSamples * kMicroBatches,
                     .micro_batch = kSamples,
                     .layout = {.recompute_every = 1, .offload_activations = kind, .offload_folder = folder.path().string()},
                     .ledger = &ledger});
    return trained(trainer, ledger, folder, 2, kLength);
  };
  const Trained without = train(Offload::none), with = train(Offload::disk);
  expect_same_weights(with, without);
  EXPECT_EQ(with.on_disk, 2 * kInput) << "each once, though two blocks have it as input; the last one is in use";
  EXPECT_EQ(without.peak_of_activations() - with.peak_of_activations(), 2 * kInput);
}

TEST(OffloadedActivations, AreReloadedToNameTheBlockThatWasNotFinite) {
  const test::TempFolder folder;
  for (const int every : {1, 2}) {
    for (int bad = 0; bad < kBlocks; ++bad) {
      torch::nn::Sequential layers;
      for (int b = 0; b < kBlocks; ++b) layers->push_back(torch::nn::Linear(kWidth, kWidth));
      {
        const c10::NoGradGuard no_grad;
        layers->ptr(static_cast<size_t>(bad))->parameters()[0].fill_(std::numeric_limits<float>::infinity());
      }
      Trainer trainer(
          Mesh(World(), {{"dp", 1}}), sequential_model("net", layers), Sgd{.lr = 0.1},
          {.global_batch = kSamples,
           .micro_batch = kSamples,
           .layout = {
               .recompute_every = every, .offload_activations = Offload::disk, .offload_folder = folder.path().string()}});
      const Batch batch = batch_of(0, 16);
      try {
        trainer.step({{batch.inputs[0].narrow(0, 0, kSamples)}, batch.target.narrow(0, 0, kSamples)});
        ADD_FAILURE() << "a loss that is not finite passed";
      } catch (const NumericError& error) {
        const std::string text = error.what();
        const std::string says = "first not finite: block " + std::to_string(bad) + ", forward of micro-batch 0: weight '" +
                                 std::to_string(bad) + ".weight'";
        EXPECT_NE(text.find(says), std::string::npos) << "every " << every << ": " << text;
      }
    }
  }
}

}  // namespace
}  // namespace weft::offload_test
