// A block may pass on a view with any strides, which affect rounding in the next one's kernels: copies on another stage, on
// disk or in host memory keep the strides, so that all layouts have the same bits.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::views_test {
namespace {

using View = std::function<at::Tensor(const at::Tensor&)>;

constexpr int64_t kSamples = 3, kTokens = 5, kWidth = 37;

at::Tensor numbers(at::IntArrayRef sizes, int64_t seed) {
  const int64_t numel = c10::multiply_integers(sizes);
  return at::arange(numel, at::kFloat).mul(0.37).add(static_cast<double>(seed)).sin().view(sizes);
}

/// Two layers over [samples, tokens, width], the first of which passes on a view of its result, and a sum of squares.
Model model_of(const View& view) {
  Model model{.name = "net", .blocks = {}, .loss = [](const Tensors& out, const at::Tensor& target) -> LossValue {
                return {out.front().sin().square().sum(), target.numel()};
              }};
  model.hits = {};
  int64_t seed = 1;
  at::NoGradGuard no_grad;
  for (const bool first : {true, false}) {
    torch::nn::Linear layer(kWidth, kWidth);
    for (const at::Tensor& value : layer->parameters()) value.copy_(numbers(value.sizes(), seed++).mul(0.3));
    const auto forward = [=](const Tensors& in) mutable -> Tensors {
      const at::Tensor y = layer->forward(in.front());
      return {first ? view(y) : y};
    };
    const std::string name = first ? "a" : "b";
    model.blocks.push_back({name, name, module_block(name, layer.ptr(), forward)});
  }
  return model;
}

std::map<std::string, at::Tensor> trained(const World& world, const View& view, const LayoutOptions& layout) {
  Trainer trainer(Mesh(world, {{"pp", world.size()}}), model_of(view), Sgd{.lr = 0.1},
                  {.global_batch = 2 * kSamples, .micro_batch = kSamples, .layout = layout});
  for (int step = 0; step < 3; ++step) {
    trainer.step({.inputs = {numbers({2 * kSamples, kTokens, kWidth}, step)}, .target = numbers({2 * kSamples}, 1)});
  }
  std::map<std::string, at::Tensor> weights;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) { weights[name] = value.clone(); });
  return weights;
}

TEST(Views, HaveTheSameBitsOnOtherStagesAndOffloaded) {
  const struct {
    const char* name;
    View view;
  } table[] = {
      {"turned", [](const at::Tensor& y) { return y.transpose(0, 1).contiguous().transpose(0, 1); }},
      {"columns first", [](const at::Tensor& y) { return y.transpose(1, 2).contiguous().transpose(1, 2); }},
      {"narrowed",
       [](const at::Tensor& y) {
         return y.repeat({1, 1, 2}).narrow(2, 11, kWidth);
       }},
      {"expanded",
       [](const at::Tensor& y) {
         return y.mean(1, /*keepdim=*/true).expand({-1, kTokens, -1});
       }},
      {"sliding", [](const at::Tensor& y) { return y.flatten(1).unfold(1, kWidth, kWidth - 1); }},
  };
  LayoutOptions plain, offloaded;
  offloaded.recompute_every = 1;
  offloaded.offload_activations = Offload::host;
  for (const auto& row : table) {
    SCOPED_TRACE(row.name);
    const auto one = trained(World(), row.view, plain);
    const auto same = [&](const auto& other, const char* how) {
      for (const auto& [name, value] : other) EXPECT_TRUE(value.equal(one.at(name))) << name << ", " << how;
    };
    same(trained(World(), row.view, offloaded), "offloaded");
    test::run_ranks(2, [&](const World& world) {
      const auto two = trained(world, row.view, plain);
      if (world.rank() == 0) same(two, "two stages");
    });
  }
}

}  // namespace
}  // namespace weft::views_test
