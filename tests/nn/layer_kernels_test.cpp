// Device kernels of layers: their CPU path, which the checked device runs in a shuffled order of indices, against LibTorch's
// formulas in float64, and against the same functions in plain order.
#include "weft/nn/device_kernels/layer_kernels.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/nn/relative_error.h"
#include "weft/nn/block.h"
#include "weft/nn/device_kernels/activation_functions.h"
#include "weft/nn/device_kernels/loss_functions.h"
#include "weft/nn/device_kernels/norm_functions.h"

namespace weft::layer_kernels_test {
namespace {

at::Tensor random(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat).to(type);
}
at::Tensor wide(const at::Tensor& x) { return x.defined() ? x.to(at::kDouble) : x; }

/// Results of a kernel, and by a formula in float64.
struct Compared {
  Tensors ours, exact;
};

struct NormCase {
  bool centres, joined, has_wide_parameters;
};

/// More rows than groups of them.
Compared norms(at::ScalarType type, int64_t width, const NormCase& of) {
  const std::vector<int64_t> sizes = {2, 45, width};
  const at::ScalarType parameters = of.has_wide_parameters && type != at::kDouble ? at::kFloat : type;
  const at::Tensor x = random(sizes, 1, type).add_(0.7), dy = random(sizes, 2, type), none;
  const at::Tensor added = of.joined ? random(sizes, 3, type) : none, residual = of.joined ? random(sizes, 4, type) : none;
  const DeviceNorm norm{random({width}, 5, parameters), of.centres ? random({width}, 6, parameters) : none, 1e-5};
  const DeviceRows n = normalise_on_device(x, added, norm);
  const DeviceNormGradients g = norm_gradients_and_y_on_device(dy, residual, n, norm);
  EXPECT_TRUE(g.y.equal(n.y)) << "the output again";
  EXPECT_TRUE(normalise_again_on_device(n, norm).equal(n.y));
  EXPECT_TRUE(norm_gradients_on_device(dy, residual, n, norm).x.equal(g.x));
  EXPECT_TRUE(n.sum.equal(of.joined ? x.add(added) : x));
  const at::Tensor sum = wide(n.sum).requires_grad_(), weight = wide(norm.weight).requires_grad_();
  const at::Tensor bias = of.centres ? wide(norm.bias).requires_grad_() : none;
  const at::Tensor y = of.centres ? at::layer_norm(sum, {width}, weight, bias, 1e-5)
                                  : sum.div(sum.square().mean(-1, true).add(1e-5).sqrt()).mul(weight);
  torch::autograd::backward({y}, {wide(dy)});
  Compared all{{n.y, g.x, g.weight}, {y.detach(), of.joined ? sum.grad().add(wide(residual)) : sum.grad(), weight.grad()}};
  if (of.centres) all.ours.push_back(g.bias), all.exact.push_back(bias.grad());
  return all;
}

/// Widths below, at and above a warp's lanes.
TEST(DeviceNorm, IsTheFormula) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t width : {6, 32, 33, 200}) {
      for (int way = 0; way < 8; ++way) {
        const NormCase of{(way & 1) != 0, (way & 2) != 0, (way & 4) != 0};
        SCOPED_TRACE(fmt::format("{}, width {}, way {}", c10::toString(type), width, way));
        const Compared all = norms(type, width, of);
        const double allowed = type == at::kDouble ? 1e-13 : type == at::kFloat ? 2e-6 : type == at::kHalf ? 4e-3 : 3e-2;
        for (size_t i = 0; i < all.ours.size(); ++i) {
          EXPECT_LE(test::relative_error(all.ours[i], all.exact[i]), allowed) << "result " << i;
        }
      }
    }
  }
}

/// The lanes of a row in their own order.
struct OrderedWarp {
  template <class Of>
  void each(const Of& of) const {
    for (int lane = 0; lane < kRowLanes; ++lane) of(lane);
  }
  template <class Part>
  auto sum(const Part& part) const {
    std::vector<decltype(part(0))> parts;
    for (int lane = 0; lane < kRowLanes; ++lane) parts.push_back(part(lane));
    for (size_t half = kRowLanes / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) parts[i] = parts[i] + parts[i + half];
    }
    return parts[0];
  }
};

TEST(DeviceNorm, HasTheBitsOfAnyOrderOfIndices) {
  constexpr int64_t kRows = 130, kWidth = 70;
  const at::Tensor x = random({kRows, kWidth}, 1, at::kFloat), dy = random({kRows, kWidth}, 2, at::kFloat);
  const DeviceNorm norm{random({kWidth}, 3, at::kFloat), random({kWidth}, 4, at::kFloat)};
  const DeviceRows n = normalise_on_device(x, {}, norm);
  const DeviceNormGradients g = norm_gradients_on_device(dy, {}, n, norm);
  const at::Tensor y = at::empty_like(x), mean = at::empty_like(n.mean), scale = at::empty_like(n.scale),
                   dx = at::empty_like(x), d_weight = at::empty_like(norm.weight), d_bias = at::empty_like(norm.bias);
  NormMemory m{.x = x.const_data_ptr(), .y = y.data_ptr(), .made_mean = mean.data_ptr(), .made_scale = scale.data_ptr()};
  m.weight = norm.weight.const_data_ptr(), m.bias = norm.bias.const_data_ptr();
  m.mean = m.made_mean, m.scale = m.made_scale;
  m.dy = dy.const_data_ptr(), m.dx = dx.data_ptr(), m.d_weight = d_weight.data_ptr(), m.d_bias = d_bias.data_ptr();
  m.rows = kRows, m.width = kWidth, m.eps = norm.eps;
  for (int64_t row = 0; row < kRows; ++row) norm_row<float>(OrderedWarp(), m, row);
  for (int64_t row = 0; row < kRows; ++row) norm_row_gradient<float>(OrderedWarp(), m, row);
  for (int64_t column = 0; column < kWidth; ++column) {
    std::vector<Two<float>> parts;
    for (int group = 0; group < kColumnGroups; ++group) parts.push_back(norm_column_part<float>(m, column, group));
    for (size_t half = kColumnGroups / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) parts[i] = parts[i] + parts[i + half];
    }
    put_norm_column<float>(m, column, parts[0]);
  }
  const Tensors shuffled = {n.y, n.mean, n.scale, g.x, g.weight, g.bias}, ordered = {y, mean, scale, dx, d_weight, d_bias};
  for (size_t i = 0; i < ordered.size(); ++i) EXPECT_TRUE(ordered[i].equal(shuffled[i])) << i;
}

struct Activations {
  const char* what;
  Compared (*run)(const at::Tensor& x, const at::Tensor& up, const at::Tensor& dy);
};

Compared gelus(const at::Tensor& x, const at::Tensor&, const at::Tensor& dy) {
  const at::Tensor dx = dy.clone(), y = x.clone();  // in their inputs' memory
  activation_gradients_on_device({.x = dx, .y = y}, dx, y);
  EXPECT_TRUE(y.equal(activate_on_device(x)));
  return {{y, dx}, {at::gelu(wide(x), "tanh"), at::gelu_backward(wide(dy), wide(x), "tanh")}};
}

Compared swiglus(const at::Tensor& x, const at::Tensor& up, const at::Tensor& dy) {
  const at::Tensor dx = x.clone(), d_up = dy.clone(), y = up.clone();
  activation_gradients_on_device({.x = dx, .up = d_up, .y = y}, d_up, dx, y);
  EXPECT_TRUE(y.equal(activate_on_device(x, up)));
  const at::Tensor open = at::silu(wide(x));
  return {{y, dx, d_up}, {open.mul(wide(up)), at::silu_backward(wide(dy).mul(wide(up)), wide(x)), open.mul(wide(dy))}};
}

constexpr Activations kActivations[] = {{"gelu", gelus}, {"swiglu", swiglus}};

TEST(DeviceActivation, IsTheFormulaAndMayOverwriteItsInputs) {
  for (const Activations& row : kActivations) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(fmt::format("{} in {}", row.what, c10::toString(type)));
      const at::Tensor x = random({3, 701}, 1, type).mul_(4.0);
      const Compared all = row.run(x, random({3, 701}, 2, type), random({3, 701}, 3, type));
      const double allowed = type == at::kDouble ? 1e-14 : type == at::kFloat ? 5e-7 : type == at::kHalf ? 1e-3 : 5e-3;
      for (size_t i = 0; i < all.ours.size(); ++i) {
        EXPECT_LE(test::relative_error(all.ours[i], all.exact[i]), allowed) << "result " << i;
      }
    }
  }
}

/// Far inputs give the input or zero; what is not a number stays so.
TEST(DeviceActivation, OfFarInputsIsFinite) {
  constexpr float kMost = std::numeric_limits<float>::max(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Activations& row : kActivations) {
    for (const float far : {20.0F, 100.0F, 1e4F, kMost}) {
      const at::Tensor one = at::full({1}, 1.0F);
      const Compared right = row.run(at::full({1}, far), one, one), left = row.run(at::full({1}, -far), one, one);
      EXPECT_FLOAT_EQ(right.ours[0].item<float>(), far) << row.what;
      EXPECT_FLOAT_EQ(right.ours[1].item<float>(), 1.0F) << row.what << " " << far;
      EXPECT_NEAR(left.ours[0].item<float>(), 0.0F, 1e-7) << row.what << " " << far;
      EXPECT_NEAR(left.ours[1].item<float>(), 0.0F, 1e-7) << row.what << " " << far;
    }
  }
  const at::Tensor x = at::full({1}, kNan), one = at::full({1}, 1.0F);
  for (const at::Tensor& up : {at::Tensor(), one}) {
    const at::Tensor dx = at::empty_like(x), d_up = up.defined() ? at::empty_like(x) : up;
    activation_gradients_on_device({.x = dx, .up = d_up}, one, x, up);
    EXPECT_TRUE(std::isnan(dx.item<float>()) && std::isnan(activate_on_device(x, up).item<float>()));
  }
}

/// Classes below, at and above a warp's lanes; far apart, with infinite logits of others, ignored rows.
TEST(DeviceClassLoss, IsTheFormula) {
  constexpr int64_t kIgnored = -100, kRows = 41;
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t classes : {3, 32, 33, 1003}) {
      for (const auto& [spread, offset] : std::vector<std::pair<double, double>>{{3.0, 0.0}, {1e3, 0.0}, {3.0, 1e4}}) {
        SCOPED_TRACE(fmt::format("{}, {} classes, {} apart around {}", c10::toString(type), classes, spread, offset));
        const at::Tensor x = random({kRows, classes}, 1, type).mul_(spread).add_(offset);
        x.narrow(1, classes - 1, 1).fill_(-std::numeric_limits<double>::infinity());
        const at::Tensor target = at::arange(kRows, at::kLong).remainder(classes - 1);
        target.narrow(0, 3, 2).fill_(kIgnored);
        const at::Tensor exact_x = wide(x).requires_grad_(),
                         factor = at::full({}, 0.3, type == at::kDouble ? type : at::kFloat);
        const at::Tensor exact = at::cross_entropy_loss(exact_x, target, {}, at::Reduction::None, kIgnored);
        exact.sum().mul(factor.to(at::kDouble)).backward();
        const DeviceLosses made = class_losses_on_device(x, target, kIgnored);
        const at::Tensor gradient = class_loss_gradient_on_device(factor, x, target, made.log_sums, kIgnored);
        EXPECT_EQ(gradient.scalar_type(), type);
        EXPECT_LE(test::relative_error(made.losses, exact.detach()), type == at::kDouble ? 1e-14 : 1e-6);
        const double allowed = type == at::kDouble ? 1e-12 : type == at::kFloat ? 4e-6 : 5e-3;
        EXPECT_LE(test::relative_error(gradient, exact_x.grad()), allowed);
      }
    }
  }
}

TEST(DeviceClassLoss, HasTheBitsOfAnyOrderOfIndices) {
  constexpr int64_t kRows = 37, kClasses = 301;
  const at::Tensor x = random({kRows, kClasses}, 1, at::kBFloat16).mul_(5.0), target = at::arange(kRows, at::kLong);
  const at::Tensor factor = at::full({}, 2.0F);
  const DeviceLosses made = class_losses_on_device(x, target, -1);
  const at::Tensor gradient = class_loss_gradient_on_device(factor, x, target, made.log_sums, -1);
  const at::Tensor losses = at::empty_like(made.losses), sums = at::empty_like(made.log_sums), dx = at::empty_like(x);
  const LossMemory m{.logits = x.const_data_ptr(),
                     .targets = target.const_data_ptr<int64_t>(),
                     .losses = losses.data_ptr(),
                     .log_sums = sums.data_ptr(),
                     .factor = factor.const_data_ptr(),
                     .gradient = dx.data_ptr(),
                     .rows = kRows,
                     .classes = kClasses,
                     .ignored = -1};
  for (int64_t row = 0; row < kRows; ++row) loss_row<c10::BFloat16>(OrderedWarp(), m, row);
  for (int64_t row = 0; row < kRows; ++row) loss_row_gradient<c10::BFloat16>(OrderedWarp(), m, row);
  EXPECT_TRUE(losses.equal(made.losses) && sums.equal(made.log_sums) && dx.equal(gradient));
}

TEST(DeviceClassLoss, OfWhatIsNoNumberOrNoClassIsNoNumber) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  const at::Tensor zero = at::full({1}, 0, at::kLong);
  for (const double value : {kNan, kInfinity, -kInfinity}) {
    const at::Tensor all = at::full({1, 40}, value), one = at::full({1, 40}, 0.5);
    one[0][35] = value;
    EXPECT_FALSE(std::isfinite(class_losses_on_device(all, zero, -1).losses.item<float>())) << value;
    EXPECT_EQ(std::isfinite(class_losses_on_device(one, zero, -1).losses.item<float>()), value == -kInfinity) << value;
  }
  for (const int64_t wrong : {-7, 40}) {
    const at::Tensor target = at::full({1}, wrong, at::kLong);
    EXPECT_TRUE(std::isnan(class_losses_on_device(at::full({1, 40}, 0.5), target, -1).losses.item<float>()));
  }
}

TEST(DeviceRotary, HasTheFormulasBitsForAnyStrides) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const bool of_samples : {false, true}) {
      const at::Tensor x = random({2, 5, 3, 8}, 1, type).transpose(1, 2), y = at::empty_like(x);
      const at::Tensor angles = at::arange(of_samples ? 40 : 20).to(at::kDouble).view({-1, 5, 4});
      const at::Tensor cos = (of_samples ? angles.unsqueeze(1) : angles[0]).cos().to(type),
                       sin = (of_samples ? angles.unsqueeze(1) : angles[0]).sin().to(type);
      turn_on_device(y, x, cos, sin, -1.0);
      const auto as = [&](const at::Tensor& t) { return type == at::kDouble ? t : t.to(at::kFloat); };
      const at::Tensor low = as(x.narrow(-1, 0, 4)), high = as(x.narrow(-1, 4, 4));
      const at::Tensor exact = at::cat({low.mul(as(cos)).add(high.mul(as(sin))), high.mul(as(cos)).sub(low.mul(as(sin)))}, -1);
      EXPECT_TRUE(y.equal(exact.to(type))) << c10::toString(type) << (of_samples ? ", of samples" : "");
    }
  }
}

}  // namespace
}  // namespace weft::layer_kernels_test
