// torch::nn modules as blocks, on devices that a machine without them can only pretend to have.
#include "weft/nn/module_block.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <functional>

#include "tests/support/refusal.h"
#include "tests/support/run_processes.h"
#include "weft/base/error.h"

namespace weft {
namespace {

/// Two devices that have a generator and nothing else.
class Hooks : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return generators_[index]; }

 private:
  at::Generator generators_[2] = {at::detail::createCPUGenerator(11), at::detail::createCPUGenerator(12)};
};

/// A tensor without data that says it is on `device`.
at::Tensor on_device(c10::DispatchKey key, at::Device device) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, device), nullptr, /*resizable=*/false);
  return at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                                  caffe2::TypeMeta::Make<float>());
}

/// A block whose forward draws a number from each generator that it is told of.
std::shared_ptr<Block> drawing_block(std::vector<at::Generator> generators, std::vector<uint64_t>& drawn) {
  return module_block("drawing", std::make_shared<torch::nn::Module>(),
                      [generators = std::move(generators), &drawn](const Tensors& inputs) mutable -> Tensors {
                        for (at::Generator& generator : generators) {
                          drawn.push_back(at::check_generator<at::CPUGeneratorImpl>(generator)->random64());
                        }
                        return inputs;
                      });
}

// In a process of its own, which alone has the device.
TEST(ModuleBlock, DrawsTheSameNumbersAgainOnItsInputsDevice) {
  const auto body = [](World) -> std::string {
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    std::vector<uint64_t> drawn;
    const auto block = drawing_block(
        {hooks.getDefaultGenerator(0), hooks.getDefaultGenerator(1), at::detail::getDefaultCPUGenerator()}, drawn);
    const at::Tensor x = on_device(c10::DispatchKey::PrivateUse1, at::Device(at::kPrivateUse1, 0));
    for (const int64_t sample : {0, 0, 4}) block->forward({x}, {.seed = 1, .first_sample = sample});
    const bool again = drawn[0] == drawn[3] && drawn[2] == drawn[5];
    const bool other = drawn[0] != drawn[6] && drawn[2] != drawn[8];
    const bool untouched = drawn[1] != drawn[4];
    return fmt::format("{} {} {}", again, other, untouched);
  };
  const auto results = test::run_processes(1, body);
  EXPECT_EQ(results[0].output, "true true true") << "again, of another sample, of another device: " << results[0].error;
}

TEST(ModuleBlock, RefusesADeviceWhoseNumbersItCannotSeed) {
  std::vector<uint64_t> drawn;
  const auto block = drawing_block({}, drawn);
  const at::Tensor x = on_device(c10::DispatchKey::XLA, at::Device(at::kXLA, 0));
  EXPECT_NO_THROW(block->forward({x}, {.training = false}));
  try {
    block->forward({x}, {});
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("block 'drawing' runs on xla:0, whose random numbers cannot be seeded ("), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

TEST(ModuleBlock, BuffersOfWholeNumbersAreConstantToo) {
  auto module = std::make_shared<torch::nn::Module>();
  at::Tensor table = module->register_buffer("table", at::tensor({3, 1, 2}, at::kLong));
  torch::nn::BatchNorm1d norm(3);
  module->register_module("norm", norm.ptr());
  bool changes = false;
  const auto block = module_block("lookup", module, [&](const Tensors& inputs) -> Tensors {
    if (changes) table.add_(1);
    return {norm->forward(inputs.front()).index_select(1, table.remainder(3))};
  });
  const at::Tensor x = at::ones({2, 3});
  EXPECT_EQ(test::refusal([&] { block->forward({x}, {}); }), "");
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1) << "counts, and nothing reads it";
  changes = true;
  const std::string error = test::refusal([&] { block->forward({x}, {}); });
  EXPECT_NE(error.find("the forward of block 'lookup' changed its buffer 'table', which is taken for constant"),
            std::string::npos)
      << error;
}

TEST(ModuleBlock, BuffersOfWholeNumbersKeepTheirValuesOnTheMetaDevice) {
  auto module = std::make_shared<torch::nn::Module>();
  at::Tensor table = module->register_buffer("table", at::tensor({2, 0, 1}, at::kLong));
  const auto block = module_block("lookup", module, [&](const Tensors& inputs) -> Tensors {
    return {inputs.front().is_meta() ? inputs.front() : inputs.front().index_select(0, table)};
  });
  const at::Tensor x = at::tensor({5.0F, 6.0F, 7.0F});
  EXPECT_TRUE(block->forward({x.to(at::kMeta)}, {})[0].is_meta());
  EXPECT_TRUE(at::equal(block->forward({x}, {})[0], at::tensor({7.0F, 5.0F, 6.0F})));
}

TEST(ModuleBlock, RefusesABatchNormThatAveragesOverAllForwards) {
  using Options = torch::nn::BatchNormOptions;
  const auto made = [](const Options& options) {
    return test::refusal(
        [&] { sequential_model("net", torch::nn::Sequential(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(options))); });
  };
  EXPECT_EQ(
      made(Options(3).momentum(c10::nullopt)),
      "model: block 'net.1' has a BatchNorm '1' without momentum, whose statistics are means over all forwards so far, which "
      "layouts count differently; give it a momentum");
  EXPECT_EQ(made(Options(3).momentum(c10::nullopt).track_running_stats(false)), "");
  EXPECT_EQ(made(Options(3)), "");
}

}  // namespace
}  // namespace weft
