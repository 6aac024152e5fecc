// Layers behind a norm: the values and gradients of separate norm and layers, for any subset of used outputs.
#include "weft/nn/layers/normed_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"

namespace weft::normed_linear_test {
namespace {

constexpr double kEps = 1e-5;

/// Outputs used for the result: the stream, and two layers' outputs.
struct Used {
  const char* name;
  bool stream, first, second;
};

constexpr Used kUses[] = {{"all", true, true, true},
                          {"outputs_alone", false, true, true},
                          {"stream_alone", true, false, false},
                          {"one_output", false, false, true},
                          {"stream_and_one_output", true, true, false}};

at::Tensor total(const at::Tensor& stream, const Tensors& outputs, const Used& used, const Tensors& factors) {
  at::Tensor sum = at::zeros({}, stream.options());
  if (used.stream) sum = sum + (stream * factors[0].to(stream.scalar_type())).sum();
  if (used.first) sum = sum + (outputs[0] * factors[1].to(stream.scalar_type())).sum();
  if (used.second) sum = sum + (outputs[1] * factors[2].to(stream.scalar_type())).sum();
  return sum;
}

void expect_close(const at::Tensor& gradient, const at::Tensor& exact, const std::string& what) {
  if (!exact.defined()) {
    EXPECT_TRUE(!gradient.defined() || gradient.count_nonzero().item().toLong() == 0) << what;
    return;
  }
  ASSERT_TRUE(gradient.defined()) << what;
  EXPECT_TRUE(gradient.to(at::kDouble).allclose(exact, 1e-4, 1e-5)) << what;
}

class NormedLinearTest : public ::testing::TestWithParam<Used> {};

TEST_P(NormedLinearTest, EqualsNormAndLayers) {
  for (const bool centres : {false, true}) {
    for (const bool joined : {false, true}) {
      SCOPED_TRACE(std::string(centres ? "layer norm" : "RMS norm") + (joined ? ", joined" : ""));
      uint64_t seed = 0;
      const auto numbers = [&](at::IntArrayRef sizes) {
        return at::randn(sizes, at::detail::createCPUGenerator(++seed), at::kFloat);
      };
      Tensors leaves = {numbers({2, 5, 12}), numbers({2, 5, 12}), numbers({12}), numbers({12})}, exact;
      const Tensors weights = {numbers({7, 12}), numbers({9, 12})},
                    factors = {numbers({2, 5, 12}), numbers({2, 5, 7}), numbers({2, 5, 9})};
      for (at::Tensor& leaf : leaves) {
        exact.push_back(leaf.to(at::kDouble).requires_grad_());
        leaf.requires_grad_();
      }
      Tensors exact_weights;
      std::vector<Parameter> layers;
      for (const at::Tensor& weight : weights) {
        exact_weights.push_back(weight.to(at::kDouble).requires_grad_());
        layers.push_back({weight.clone().requires_grad_(), at::zeros_like(weight)});
      }
      Parameter norm_weight{leaves[2], {}}, norm_bias{leaves[3], {}};
      const Branch branch =
          normed_linear(leaves[0], joined ? leaves[1] : at::Tensor(), {&norm_weight, centres ? &norm_bias : nullptr, kEps},
                        {{&layers[0], nullptr}, {&layers[1], nullptr}}, {});
      const at::Tensor stream = joined ? exact[0] + exact[1] : exact[0] + 0.0;
      const at::Tensor y = centres ? at::layer_norm(stream, {12}, exact[2], exact[3], kEps)
                                   : stream / (stream.square().mean(-1, true) + kEps).sqrt() * exact[2];
      const Tensors outputs = {at::linear(y, exact_weights[0]), at::linear(y, exact_weights[1])};
      total(branch.stream, branch.outputs, GetParam(), factors).backward();
      total(stream, outputs, GetParam(), factors).backward();
      for (size_t i = 0; i < leaves.size(); ++i) expect_close(leaves[i].grad(), exact[i].grad(), "leaf " + std::to_string(i));
      for (size_t i = 0; i < layers.size(); ++i)
        expect_close(layers[i].gradient, exact_weights[i].grad(), "weight " + std::to_string(i));
    }
  }
}

/// Gradients of x, the norm's weight and the layers' weights.
Tensors gradients_of(const Tensors& values, const Tensors& factors, const Context& context, const Used& used) {
  const at::Tensor x = values[0].clone().requires_grad_();
  Parameter norm{values[1].clone().requires_grad_(), {}};
  std::vector<Parameter> layers;
  for (const at::Tensor& value : {values[2], values[3]}) {
    layers.push_back({value.clone().requires_grad_(), at::zeros_like(value)});
    const int ranks = context.tp.size();
    if (ranks > 1) layers.back().split = {.segments = {ranks * value.size(0)}, .parts = ranks, .part = context.tp.rank()};
  }
  const Branch branch = normed_linear(x, {}, {&norm, nullptr, kEps}, {{&layers[0], nullptr}, {&layers[1], nullptr}}, context);
  total(branch.stream, branch.outputs, used, factors).backward();
  return {x.grad(), norm.value.grad(), layers[0].gradient, layers[1].gradient};
}

TEST_P(NormedLinearTest, IsTheSameWhereEachRankHasItsTokens) {
  const Tensors values = {at::randn({2, 6, 12}), at::randn({12}), at::randn({8, 12}), at::randn({10, 12})},
                factors = {at::randn({2, 6, 12}), at::randn({2, 6, 8}), at::randn({2, 6, 10})};
  const Tensors whole = gradients_of(values, factors, {}, GetParam());
  test::run_ranks(2, [&](const World& world) {
    const Mesh mesh(world, {{"tp", 2}});
    const auto own = [&](const at::Tensor& x, int64_t dim) { return x.chunk(2, dim)[world.rank()]; };
    const Tensors gradients =
        gradients_of({own(values[0], 1), values[1], own(values[2], 0), own(values[3], 0)},
                     {own(factors[0], 1), own(factors[1], 2), own(factors[2], 2)},
                     {.tp = mesh.group(mesh.axis("tp")), .layout = {.sequence_parallel = true}}, GetParam());
    const Tensors expected = {own(whole[0], 1), whole[1], own(whole[2], 0), own(whole[3], 0)};
    for (size_t i = 0; i < expected.size(); ++i) expect_close(gradients[i], expected[i].to(at::kDouble), std::to_string(i));
  });
}

INSTANTIATE_TEST_SUITE_P(Table, NormedLinearTest, ::testing::ValuesIn(kUses), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::normed_linear_test
