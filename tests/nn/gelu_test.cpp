// GELU: as exact as LibTorch's, value and gradient, far out too; the same bits whatever computes; and with the layer behind it
// the gradients of the two by themselves, for half of what they keep.
#include "weft/nn/gelu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>

#include "tests/support/refusal.h"
#include "weft/nn/norms.h"
#include "weft/nn/swiglu.h"

namespace weft::gelu_test {
namespace {

/// Errors in units of the last place of the exact value, or of 1e-30 where that is smaller.
double largest_ulps(const at::Tensor& x, const at::Tensor& exact) {
  const at::Tensor unit = exact.abs().clamp_min(1e-30).log2().floor_().sub_(23).exp2_();
  return x.to(at::kDouble).sub(exact).div_(unit).abs().max().item().toDouble();
}

at::Tensor gradient_of(const at::Tensor& x, const at::Tensor& dy) {
  const at::Tensor dx = at::empty_like(x);
  gelu_gradient(dx, dy, x);
  return dx;
}

double largest(const at::Tensor& error) { return error.abs().max().item().toDouble(); }

// Where it is small, towards -5.5, it loses as many bits as the exponent of e has; LibTorch's own loses all digits.
TEST(Gelu, IsAsExactAsLibTorchs) {
  const at::Tensor x = at::linspace(-5.5, 12.0, 100003, at::TensorOptions(at::kFloat)), wide = x.to(at::kDouble);
  const at::Tensor exact = at::gelu(wide, "tanh"), ours = gelu_value(x).to(at::kDouble), theirs = at::gelu(x, "tanh");
  const at::Tensor near = x.gt(-1.0);
  EXPECT_LT(largest_ulps(ours.masked_select(near), exact.masked_select(near)), 4.0);
  EXPECT_LT(largest_ulps(ours, exact), 40.0);
  EXPECT_LT(largest(ours.sub(exact)), 2 * largest(theirs.to(at::kDouble).sub(exact)));
  const at::Tensor ones = x.mul(0.0).add(1.0);
  const at::Tensor exact_gradient = at::gelu_backward(ones.to(at::kDouble), wide, "tanh");
  const at::Tensor their_gradient = at::gelu_backward(ones, x, "tanh").to(at::kDouble);
  EXPECT_LT(largest(gradient_of(x, ones).to(at::kDouble).sub(exact_gradient)), 2 * largest(their_gradient.sub(exact_gradient)));
}

TEST(Gelu, GoesOnFarOut) {
  const at::Tensor x = at::tensor({-INFINITY, -1e30F, -1e15F, -30.0F, -0.0F, 30.0F, 1e15F, INFINITY, NAN}),
                   ones = x.mul(0).fill_(1);
  const at::Tensor y = gelu_value(x), dx = gradient_of(x, ones);
  for (const int64_t i : {1, 2, 3, 4}) EXPECT_LE(y[i].abs().item().toDouble(), 1e-7) << i;
  for (const int64_t i : {5, 6, 7}) EXPECT_EQ(y[i].item().toFloat(), x[i].item().toFloat());
  for (const int64_t i : {2, 3}) EXPECT_NEAR(dx[i].item().toDouble(), 0.0, 1e-12);
  EXPECT_EQ(dx[4].item().toDouble(), 0.5);
  for (const int64_t i : {5, 6}) EXPECT_EQ(dx[i].item().toDouble(), 1.0);
  EXPECT_TRUE(std::isnan(y[8].item().toFloat()));
  EXPECT_TRUE(std::isnan(dx[8].item().toFloat()));
}

TEST(Gelu, RoundsBfloat16Once) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({1003}).mul(3.0).to(at::kBFloat16), dy = at::randn({1003}).to(at::kBFloat16);
  EXPECT_TRUE(gelu_value(x).equal(gelu_value(x.to(at::kFloat)).to(at::kBFloat16)));
  EXPECT_TRUE(gradient_of(x, dy).equal(gradient_of(x.to(at::kFloat), dy.to(at::kFloat)).to(at::kBFloat16)));
}

TEST(Gelu, HasTheSameBitsWhateverComputes) {
  at::manual_seed(2);
  const int threads = at::get_num_threads();
  const at::Tensor x = at::randn({50021}).mul_(3.0), dy = at::randn({50021});
  const auto all = [&] {
    const at::Tensor dx = dy.clone(), y = gelu_gradient_and_value(dx, dx, x);
    return at::cat({gelu_value(x), y, dx, gradient_of(x, dy)});
  };
  const at::Tensor expected = all();
  EXPECT_TRUE(expected.narrow(0, 0, 50021).equal(expected.narrow(0, 50021, 50021)));
  for (const int number : {1, 2, 3}) {
    at::set_num_threads(number);
    EXPECT_TRUE(all().equal(expected)) << number << " threads";
  }
  at::set_num_threads(threads);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if ((target & (HWY_AVX3 | HWY_AVX2 | HWY_NEON)) == 0) continue;  // without fused multiply-adds
    hwy::SetSupportedTargetsForTest(target);
    EXPECT_TRUE(all().equal(expected)) << hwy::TargetName(target);
    hwy::SetSupportedTargetsForTest(0);
  }
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

// Of all that a kernel runs backward.
TEST(Kernels, AreDifferentiableOnceOnly) {
  const at::Tensor x = at::randn({2, 8}).requires_grad_(true), w = at::randn({8}).requires_grad_(true);
  const std::pair<const char*, at::Tensor> outputs[] = {
      {"gelu", weft::gelu(x)}, {"swiglu", swiglu(x, x)}, {"norm", normalise(x, {.weight = w})}};
  for (const auto& [name, y] : outputs) {
    const std::string refused =
        test::refusal([&y = y] { y.sum().backward({}, /*retain_graph=*/false, /*create_graph=*/true); });
    EXPECT_EQ(refused, std::string(name) + ": differentiable once only; run backward without create_graph");
  }
}

}  // namespace
}  // namespace weft::gelu_test
