// Rotary embedding by its kernel: as exact as by operators, rounded once, with the same bits on any processor and for any
// layout of heads. The formula: formulas_test.cpp.
#include "weft/nn/functional/rotary.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <string>
#include <vector>

namespace weft::rotary_test {
namespace {

constexpr int64_t kBatch = 3, kHeads = 5, kTokens = 9;

enum class Angles { of_tokens, of_samples };

struct Case {
  int64_t width;
  Angles angles;
};

constexpr Case kCases[] = {{2, Angles::of_tokens},  {6, Angles::of_samples},  {40, Angles::of_tokens},
                           {64, Angles::of_tokens}, {64, Angles::of_samples}, {128, Angles::of_tokens}};

at::Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

Rotation rotation(const Case& c, at::ScalarType type) {
  const Rotation table = rotation_at(at::arange(kTokens, at::kLong), c.width, 1e4, type);
  if (c.angles == Angles::of_tokens) return table;
  return rotation_of_samples(table, at::randint(kTokens, {kBatch, kTokens}, at::detail::createCPUGenerator(5), at::kLong));
}

Rotation to(const Rotation& rotation, at::ScalarType type) { return {rotation.cos.to(type), rotation.sin.to(type)}; }

/// Tokens before heads, with other data between, as in a projection of queries, keys and values.
at::Tensor heads(int64_t width, uint64_t seed) {
  return random({kBatch, kTokens, 2 * kHeads, width}, seed).transpose(1, 2).narrow(1, 2, kHeads);
}

/// y, and the gradient of x.
std::vector<at::Tensor> run(const at::Tensor& x, const at::Tensor& dy, const Rotation& by) {
  const at::Tensor leaf = x.detach().requires_grad_();
  const at::Tensor y = rotate(leaf, by);
  y.backward(dy);
  return {y.detach(), leaf.grad()};
}

/// By operators, in any type.
std::vector<at::Tensor> by_operators(const at::Tensor& x, const at::Tensor& dy, const Rotation& by) {
  const auto turn = [&by](const at::Tensor& from, double direction) {
    const std::vector<at::Tensor> sides = from.chunk(2, -1);
    const at::Tensor sin = by.sin * direction;
    return at::cat({sides[0] * by.cos - sides[1] * sin, sides[1] * by.cos + sides[0] * sin}, -1);
  };
  return {turn(x, 1.0), turn(dy, -1.0)};
}

double largest_error(const at::Tensor& x, const at::Tensor& exact) {
  return x.to(at::kDouble).sub(exact).abs().max().item().toDouble();
}

TEST(Rotary, IsAsExactAsByOperators) {
  for (const Case& c : kCases) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor x = heads(c.width, 1).to(type), dy = heads(c.width, 2).to(type);
      const Rotation by = rotation(c, type);
      const auto ours = run(x, dy, by), theirs = by_operators(x, dy, by);
      const auto exact = by_operators(x.to(at::kDouble), dy.to(at::kDouble), to(by, at::kDouble));
      const auto wide = run(x.to(at::kFloat), dy.to(at::kFloat), to(by, at::kFloat));
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(ours[i].scalar_type(), type);
        EXPECT_LE(largest_error(ours[i], exact[i]), 2 * largest_error(theirs[i], exact[i])) << c.width << ' ' << type;
        EXPECT_TRUE(ours[i].equal(wide[i].to(type))) << "not rounded once, heads of " << c.width;
      }
    }
  }
}

TEST(Rotary, HasTheSameBitsWhateverComputes) {
  const int threads = at::get_num_threads();
  for (const Case& c : kCases) {
    const at::Tensor x = heads(c.width, 1), dy = heads(c.width, 2);
    const Rotation by = rotation(c, at::kFloat);
    const auto expected = run(x, dy, by);
    const auto expect_same = [&](const std::string& what) {
      const auto again = run(x, dy, by);
      for (size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(again[i].equal(expected[i])) << what << ", heads of " << c.width;
    };
    for (const int number : {1, 2, 3}) {
      at::set_num_threads(number);
      expect_same(std::to_string(number) + " threads");
    }
    at::set_num_threads(threads);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      expect_same(hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

// Non-contiguous elements, other numbers of dimensions and other types use operators.
TEST(Rotary, TakesAnyOrderInMemory) {
  const Rotation by = rotation({40, Angles::of_tokens}, at::kFloat);
  const at::Tensor x = heads(40, 1), dy = heads(40, 2), apart = x.transpose(2, 3).contiguous().transpose(2, 3);
  ASSERT_NE(apart.stride(3), 1);
  const auto expected = by_operators(x.to(at::kDouble), dy.to(at::kDouble), to(by, at::kDouble));
  for (const at::Tensor& other : {x, apart, x.contiguous(), x.to(at::kDouble)}) {
    const at::ScalarType type = other.scalar_type();
    const auto ours = run(other, dy.to(type), to(by, type));
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_LE(largest_error(ours[i], expected[i]), 1e-6);
  }
  const auto flat = run(x.flatten(0, 1), dy.flatten(0, 1), by);
  for (size_t i = 0; i < flat.size(); ++i) EXPECT_LE(largest_error(flat[i].view(x.sizes()), expected[i]), 1e-6);
}

TEST(Rotary, HasShapesWithoutData) {
  const at::Tensor x = heads(64, 1), none = x.to(at::kMeta),
                   y = rotate(none, rotation_at(at::arange(kTokens, at::TensorOptions(at::kLong).device(at::kMeta)), 64, 1e4,
                                                at::kFloat));
  EXPECT_EQ(y.sizes(), x.sizes());
  const Rotation by = rotation({64, Angles::of_tokens}, at::kFloat);
  EXPECT_EQ(rotate(x.narrow(0, 0, 0), by).sizes(), x.narrow(0, 0, 0).sizes());
}

}  // namespace
}  // namespace weft::rotary_test
