// Norms of channels-last images, with the operations after them, against LibTorch's operators in float64.
#include "weft/nn/images/pixel_norm.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/nn/relative_error.h"
#include "weft/nn/images/batch_norm.h"

namespace weft::pixel_norm_test {
namespace {

struct Case {
  std::vector<int64_t> sizes;
  at::ScalarType type = at::kFloat;
  bool relu = true, shortcut = true;
  double tolerance = 2e-6;  ///< relative to the largest value
};

struct Result {
  at::Tensor y, dx, of_shortcut, of_weight, of_bias, running_mean, running_var;
};

at::Tensor numbers(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

/// Results for x, in the types of `x` and of the layer; gradients are of sum(y dy).
template <class Forward>
Result run(const Case& c, at::ScalarType type, at::ScalarType of_layer, const Forward& forward) {
  const auto image = [&](uint64_t seed) {
    return numbers(c.sizes, seed).to(c.type).to(type).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const int64_t channels = c.sizes[1];
  const at::Tensor x = (image(1) + 3.0).to(c.type).to(type).requires_grad_(), shortcut = image(2).requires_grad_();
  const BatchNormState state{.weight = numbers({channels}, 3).to(of_layer).requires_grad_(),
                             .bias = numbers({channels}, 4).to(of_layer).requires_grad_(),
                             .running_mean = at::zeros({channels}, of_layer),
                             .running_var = at::ones({channels}, of_layer)};
  const at::Tensor y = forward(x, state, c.shortcut ? shortcut : at::Tensor());
  torch::autograd::backward({y}, {image(5)});
  return {y.detach(),          x.grad(),          c.shortcut ? shortcut.grad() : at::Tensor(),
          state.weight.grad(), state.bias.grad(), state.running_mean,
          state.running_var};
}

Result by_pixels(const Case& c) {
  return run(c, c.type, at::kFloat, [&](const at::Tensor& x, const BatchNormState& state, const at::Tensor& shortcut) {
    EXPECT_TRUE(supports_pixel_norm(x, state));
    return c.relu ? batch_norm_relu(x, state, {}, shortcut) : batch_norm(x, state, {});
  });
}

Result by_operators(const Case& c) {
  return run(c, at::kDouble, at::kDouble, [&](const at::Tensor& x, const BatchNormState& s, const at::Tensor& shortcut) {
    at::Tensor y = at::batch_norm(x, s.weight, s.bias, s.running_mean, s.running_var, true, s.momentum, s.eps, false);
    if (shortcut.defined()) y = y + shortcut;
    return c.relu ? y.relu() : y;
  });
}

const std::vector<std::pair<const char*, at::Tensor Result::*>>& parts() {
  static const std::vector<std::pair<const char*, at::Tensor Result::*>> all = {
      {"y", &Result::y},
      {"gradient of x", &Result::dx},
      {"gradient of the shortcut", &Result::of_shortcut},
      {"gradient of weight", &Result::of_weight},
      {"gradient of bias", &Result::of_bias},
      {"running mean", &Result::running_mean},
      {"running variance", &Result::running_var},
  };
  return all;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Channel counts with and without whole vectors; few pixels, and many chunks of them.
  for (const auto& [channels, height, width] :
       std::vector<std::array<int64_t, 3>>{{16, 9, 7}, {3, 5, 4}, {20, 2, 3}, {64, 1, 2}, {8, 40, 30}}) {
    for (const auto& [relu, shortcut] : {std::pair{true, true}, {true, false}, {false, false}}) {
      all.push_back({.sizes = {6, channels, height, width}, .relu = relu, .shortcut = shortcut});
    }
  }
  all.push_back({.sizes = {6, 20, 5, 4}, .type = at::kBFloat16, .shortcut = false, .tolerance = 0.01});
  all.push_back({.sizes = {6, 16, 9, 7}, .type = at::kBFloat16, .relu = false, .shortcut = false, .tolerance = 0.01});
  return all;
}

TEST(PixelNorm, IsWhatOperatorsMakeOfIt) {
  for (const Case& c : cases()) {
    const Result actual = by_pixels(c), expected = by_operators(c);
    for (const auto& [what, part] : parts()) {
      if (!(actual.*part).defined()) continue;
      EXPECT_LE(test::relative_error(actual.*part, expected.*part), c.tolerance)
          << what << " of " << at::IntArrayRef(c.sizes) << " " << c.type << (c.relu ? ", ReLU" : "")
          << (c.shortcut ? ", shortcut" : "");
    }
  }
}

/// With a bfloat16 shortcut, only the sum is rounded.
TEST(PixelNorm, AddsAShortcutBeforeItRounds) {
  const Case c{.sizes = {6, 16, 9, 7}, .type = at::kBFloat16, .tolerance = 0.01};
  EXPECT_LE(test::relative_error(by_pixels(c).y, by_operators(c).y), 0.004);
}

TEST(PixelNorm, HasTheSameBitsForAnyNumberOfThreads) {
  const Case c{.sizes = {7, 24, 31, 29}};
  const int before = at::get_num_threads();
  const Result one = by_pixels(c);
  at::set_num_threads(3);
  const Result three = by_pixels(c);
  at::set_num_threads(before);
  for (const auto& [what, part] : parts()) EXPECT_TRUE(at::equal(one.*part, three.*part)) << what;
}

TEST(PixelNorm, LeavesOtherOrdersAndTypesToOperators) {
  const auto state_of = [](at::ScalarType type) {
    const at::Tensor ones = at::ones({4}, type);
    return BatchNormState{.weight = ones, .bias = ones, .running_mean = ones, .running_var = ones};
  };
  const at::Tensor x = numbers({2, 4, 3, 3}, 1), turned = x.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(supports_pixel_norm(turned, state_of(at::kFloat)));
  EXPECT_FALSE(supports_pixel_norm(x, state_of(at::kFloat)));
  EXPECT_FALSE(supports_pixel_norm(turned.to(at::kDouble), state_of(at::kDouble)));
  EXPECT_FALSE(supports_pixel_norm(turned.flatten(1), state_of(at::kFloat)));
}

}  // namespace
}  // namespace weft::pixel_norm_test
