// torch::nn modules as blocks: treatment of their buffers.
#include "weft/nn/modules/module_block.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "tests/support/refusal.h"
#include "weft/base/error.h"

namespace weft {
namespace {

TEST(ModuleBlock, BuffersOfWholeNumbersAreConstantToo) {
  auto module = std::make_shared<torch::nn::Module>();
  at::Tensor table = module->register_buffer("table", at::tensor({3, 1, 2}, at::kLong));
  torch::nn::BatchNorm1d norm(3);
  module->register_module("norm", norm.ptr());
  const auto block = module_block("lookup", module, [&](const Tensors& inputs) -> Tensors {
    return {norm->forward(inputs.front()).index_select(1, table.remainder(3))};
  });
  const at::Tensor x = at::ones({2, 3});
  EXPECT_EQ(test::refusal([&] { block->forward({x}, {}); }), "");
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1) << "counts, and nothing reads it";
  const std::vector<BufferSpec> buffers = block->buffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_FALSE(buffers[0].counts);
  EXPECT_TRUE(buffers[1].counts);
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

TEST(ModuleBlock, RefusesPartsOfSequences) {
  auto module = std::make_shared<torch::nn::Module>();
  const auto block = module_block("plain", module, [](const Tensors& inputs) -> Tensors { return inputs; });
  Context context;
  context.layout.sequence_parallel = true;
  EXPECT_EQ(test::refusal([&] {
              block->forward({at::ones({2, 3})}, context);
            }),
            "layout.sequence_parallel: block 'plain' is made of torch modules, which need whole sequences; set it to false");
}

}  // namespace
}  // namespace weft
