// GELU and SwiGLU: values and gradients as exact as LibTorch's, also for large inputs, with the same bits on any processor. And
// functions whose backward is a kernel can be differentiated only once.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/refusal.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/functional/activation.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/sequence/documents.h"

namespace weft::activations_test {
namespace {

/// The value, then the gradients of all inputs.
using All = Tensors (*)(const Tensors& inputs, const at::Tensor& dy);

struct Case {
  const char* name;
  size_t inputs;
  All ours;
  All ours_again;  ///< the value recomputed in backward, results written over the inputs
  All theirs;      ///< by operators, in any type
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

Tensors our_gelu(const Tensors& x, const at::Tensor& dy) {
  const at::Tensor dx = at::empty_like(x[0]);
  gelu_gradient(dx, dy, x[0]);
  return {gelu_value(x[0]), dx};
}

Tensors our_gelu_again(const Tensors& x, const at::Tensor& dy) {
  const at::Tensor dx = dy.clone(), y = x[0].clone();
  gelu_gradient_and_value(dx, y, dx, y);
  return {y, dx};
}

Tensors their_gelu(const Tensors& x, const at::Tensor& dy) {
  return {at::gelu(x[0], "tanh"), at::gelu_backward(dy, x[0], "tanh")};
}

Tensors our_swiglu(const Tensors& x, const at::Tensor& dy) {
  const SwigluGradients all{at::empty_like(x[0]), at::empty_like(x[1]), {}};
  swiglu_gradients(all, dy, x[0], x[1]);
  return {swiglu_value(x[0], x[1]), all.gate, all.up};
}

Tensors our_swiglu_again(const Tensors& x, const at::Tensor& dy) {
  const SwigluGradients all{x[0].clone(), dy.clone(), x[1].clone()};
  swiglu_gradients(all, all.up, all.gate, all.y);
  return {all.y, all.gate, all.up};
}

Tensors their_swiglu(const Tensors& x, const at::Tensor& dy) {
  return {at::silu(x[0]).mul(x[1]), at::silu_backward(dy.mul(x[1]), x[0]), at::silu(x[0]).mul(dy)};
}

const Case kCases[] = {{"gelu", 1, our_gelu, our_gelu_again, their_gelu},
                       {"swiglu", 2, our_swiglu, our_swiglu_again, their_swiglu}};

/// In float32: the first inputs cover all ranges of interest, the rest is random.
Tensors inputs_of(const Case& c, int64_t count, uint64_t seed) {
  at::manual_seed(seed);
  Tensors inputs = {at::linspace(-12.0, 12.0, count, at::TensorOptions(at::kFloat))};
  while (inputs.size() < c.inputs) inputs.push_back(at::randn({count}));
  return inputs;
}

Tensors as(const Tensors& all, at::ScalarType type) {
  Tensors typed;
  for (const at::Tensor& x : all) typed.push_back(x.to(type));
  return typed;
}

double largest_error(const at::Tensor& x, const at::Tensor& exact) {
  return x.to(at::kDouble).sub(exact).abs().max().item().toDouble();
}

void expect_equal(const Tensors& all, const Tensors& expected, const std::string& what) {
  for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(all[i].equal(expected[i])) << what << ", result " << i;
}

class ActivationTest : public ::testing::TestWithParam<Case> {};

TEST_P(ActivationTest, IsAsExactAsLibTorchs) {
  const Case& c = GetParam();
  const Tensors x = inputs_of(c, 100003, 1);
  const at::Tensor dy = at::randn({100003});
  const Tensors exact = c.theirs(as(x, at::kDouble), dy.to(at::kDouble)), ours = c.ours(x, dy), theirs = c.theirs(x, dy);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_LT(largest_error(ours[i], exact[i]), 2 * largest_error(theirs[i], exact[i])) << "result " << i;
  }
}

TEST_P(ActivationTest, RoundsBfloat16Once) {
  const Case& c = GetParam();
  const Tensors x = as(inputs_of(c, 1003, 2), at::kBFloat16);
  const at::Tensor dy = at::randn({1003}).to(at::kBFloat16);
  expect_equal(c.ours(x, dy), as(c.ours(as(x, at::kFloat), dy.to(at::kFloat)), at::kBFloat16), "rounded once");
}

TEST_P(ActivationTest, HasTheSameBitsWhateverComputes) {
  const Case& c = GetParam();
  const int threads = at::get_num_threads();
  const Tensors x = inputs_of(c, 50021, 3);
  const at::Tensor dy = at::randn({50021});
  const Tensors expected = c.ours(x, dy);
  for (const int number : {1, 2, 3}) {
    at::set_num_threads(number);
    expect_equal(c.ours(x, dy), expected, std::to_string(number) + " threads");
    expect_equal(c.ours_again(x, dy), expected, "value made again");
  }
  at::set_num_threads(threads);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if ((target & (HWY_AVX3 | HWY_AVX2 | HWY_NEON)) == 0) continue;  // without fused multiply-adds
    hwy::SetSupportedTargetsForTest(target);
    expect_equal(c.ours(x, dy), expected, hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(0);
  }
}

// LibTorch's own multiplies infinity by 0 there and gives NaN.
TEST_P(ActivationTest, GoesOnFarOut) {
  const Case& c = GetParam();
  const at::Tensor x =
      at::tensor({-INFINITY, -3e38F, -1e30F, -1e15F, -100.0F, -0.0F, 100.0F, 1e15F, 1e30F, 3e38F, INFINITY, NAN});
  const at::Tensor ones = x.mul(0).fill_(1);
  const Tensors all = c.ours(c.inputs == 1 ? Tensors{x} : Tensors{x, ones}, ones);
  EXPECT_LT(all[0].slice(0, 0, 5).abs().max().item().toDouble(), 1e-33) << all[0];
  EXPECT_LT(all[1].slice(0, 0, 5).abs().max().item().toDouble(), 1e-33) << all[1];
  EXPECT_EQ(all[0][5].item().toFloat(), 0.0F);
  EXPECT_EQ(all[1][5].item().toFloat(), 0.5F);
  EXPECT_TRUE(all[0].slice(0, 6, 11).equal(x.slice(0, 6, 11))) << all[0];
  EXPECT_TRUE(all[1].slice(0, 6, 11).equal(ones.slice(0, 6, 11))) << all[1];
  for (const at::Tensor& one : all) EXPECT_TRUE(std::isnan(one[11].item().toFloat())) << one;
}

INSTANTIATE_TEST_SUITE_P(Table, ActivationTest, ::testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

/// Errors in units in the last place of the exact value, or of 1e-30 if that is smaller.
double largest_ulps(const at::Tensor& x, const at::Tensor& exact) {
  const at::Tensor unit = exact.abs().clamp_min(1e-30).log2().floor_().sub_(23).exp2_();
  return x.to(at::kDouble).sub(exact).div_(unit).abs().max().item().toDouble();
}

// Small values, towards -5.5, lose as many bits as the exponent of e has; LibTorch's own lose all digits.
TEST(Gelu, HasDigitsWhereItIsSmall) {
  const at::Tensor x = at::linspace(-5.5, 12.0, 100003, at::TensorOptions(at::kFloat)), near = x.gt(-1.0);
  const at::Tensor exact = at::gelu(x.to(at::kDouble), "tanh"), ours = gelu_value(x);
  EXPECT_LT(largest_ulps(ours.masked_select(near), exact.masked_select(near)), 4.0);
  EXPECT_LT(largest_ulps(ours, exact), 40.0);
}

TEST(Gelu, TakesWhatNoKernelDoes) {
  at::manual_seed(3);
  for (const at::Tensor& x : {at::randn({7, 9}).to(at::kDouble), at::randn({9, 7}).t()}) {
    const at::Tensor leaf = x.detach().requires_grad_(true), other = x.detach().requires_grad_(true), dy = at::randn({7, 9});
    weft::gelu(leaf).backward(dy.to(x.scalar_type()));
    at::gelu(other, "tanh").backward(dy.to(x.scalar_type()));
    EXPECT_TRUE(leaf.grad().allclose(other.grad(), 1e-5, 1e-6));
  }
}

// A kept graph reads them again; one that runs once does not.
TEST(UsedUpInputs, AreWrittenOverInTheLastBackwardAlone) {
  for (const auto& [activation, inputs] : {std::pair{&kGelu, 1}, {&kSwiglu, 2}}) {
    at::manual_seed(4);
    Tensors x;
    for (int i = 0; i < inputs; ++i) x.push_back(at::randn({2, 3, 8}));
    const at::Tensor weight = at::randn({5, 8}), dy = at::randn({2, 3, 5}), value = activation->value(x);
    const auto run = [&, activation = activation](const Tensors& of, bool overwritable) {
      Parameter own{weight.detach().requires_grad_(), at::zeros_like(weight)};
      Tensors leaves;
      for (const at::Tensor& one : of) leaves.push_back(one.detach().requires_grad_());
      const LayerInput input = overwritable ? LayerInput::overwritable(leaves, *activation) : LayerInput(leaves, *activation);
      const at::Tensor y = linear(input, own, nullptr, {});
      for (const bool keeps : {true, false}) {
        for (at::Tensor& leaf : leaves) leaf.mutable_grad() = at::Tensor();
        y.backward(dy, keeps);
        if (keeps) expect_equal(leaves, x, "inputs of a graph that is kept");
      }
      Tensors gradients;
      for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad());
      gradients.push_back(own.value.grad());
      return gradients;
    };
    Tensors copies;
    for (const at::Tensor& one : x) copies.push_back(one.clone());
    expect_equal(run(copies, true), run(x, false), "gradients");
    EXPECT_TRUE(copies.back().equal(value)) << "the value is not made in the input's place";
  }
}

TEST(Kernels, AreDifferentiableOnceOnly) {
  const at::Tensor x = at::randn({1, 4, 24}).requires_grad_(true), w = at::randn({24}).requires_grad_(true);
  const at::Tensor heads = x.view({1, 4, 3, 8}).transpose(1, 2);
  const DocumentRuns runs = {{.sample = 0, .samples = 1, .begin = 0, .tokens = 2},
                             {.sample = 0, .samples = 1, .begin = 2, .tokens = 2}};
  Parameter weight{at::randn({2, 24}).requires_grad_(true), at::zeros({2, 24})};
  const std::pair<const char*, at::Tensor> outputs[] = {
      {"gelu", weft::gelu(x)},
      {"swiglu", swiglu(x, x)},
      {"norm", normalise(x, {.weight = w})},
      {"rotary embedding", rotate(heads, rotation_at(at::arange(4, at::kLong), 8, 1e4, at::kFloat))},
      {"attention", attention(x, 1)},
      {"attention", attention(heads, heads, heads)},
      {"attention within documents", attention(x, 1, {}, "h", runs)},
      {"attention within documents", attention(heads, heads, heads, {}, "h", runs)},
      {"linear layer", linear(LayerInput({x}, kGelu), weight, nullptr, {})}};
  for (const auto& [name, y] : outputs) {
    const std::string refused =
        test::refusal([&y = y] { y.sum().backward({}, /*retain_graph=*/false, /*create_graph=*/true); });
    EXPECT_EQ(refused, std::string(name) + ": differentiable once only; run backward without create_graph");
  }
}

}  // namespace
}  // namespace weft::activations_test
